use super::*;

/// Pairs of TypeScript and the JavaScript that is left of it.
fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let erased = erase(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(erased, *expected, "{text}");
        assert_eq!(erased.chars().count(), text.chars().count());
    }
}

#[test]
fn types_of_variables_and_functions_are_blanked() {
    check(&[
        ("const a: number = 1;", "const a         = 1;"),
        ("let a!: A<B>, b: C | D;", "let a       , b       ;"),
        (
            "function f<T extends A>(this: T, a?: string, ...b: T[]): asserts a is B {}",
            "function f             (         a         , ...b     )                 {}",
        ),
        (
            "const f = async <T,>(a: T): Promise<T> => a;",
            "const f = async     (a   )             => a;",
        ),
        (
            "const f = (a: A = {} as A): a is B => !!a;",
            "const f = (a    = {}     )         => !!a;",
        ),
        ("try {} catch (e: unknown) {}", "try {} catch (e         ) {}"),
        ("for (const a of b as A[]) {}", "for (const a of b       ) {}"),
        ("const { a, b }: C = d;", "const { a, b }    = d;"),
    ]);
}

#[test]
fn types_in_expressions_are_blanked() {
    check(&[
        ("a!.b!();", "a .b ();"),
        ("(a as B).c = d satisfies E as F;", "(a     ).c = d                 ;"),
        (
            "f<A>(b); new C<D>(); e?.<F>(g); h<I>`j`;",
            "f   (b); new C   (); e?.   (g); h   `j`;",
        ),
        ("const a = f<B>;", "const a = f   ;"),
        ("`${a as B}`", "`${a     }`"),
        ("a /* b */ as /* c */ D /* e */;", "a                      /* e */;"),
    ]);
}

#[test]
fn declarations_of_types_leave_a_semicolon() {
    check(&[
        ("type A = { b: string };", ";                      "),
        (
            "interface A<B> extends C {\n  d(): E;\n}",
            ";                         \n         \n ",
        ),
        (
            "declare const a: B;\nexport declare function c(): D;",
            ";                  \n;                              ",
        ),
        (
            "declare module \"a\" { export const b: C }",
            ";                                       ",
        ),
        ("declare global { var a: B }", ";                          "),
        ("namespace A { export type B = C }", ";                                "),
        ("export type { A } from \"b\";", ";                          "),
        ("export type * from \"b\";", ";                      "),
        (
            "function f(a: A): B;\nfunction f(a) {}",
            ";                   \nfunction f(a) {}",
        ),
        ("export function f(a: A): B;", ";                          "),
        ("export default interface A {}", ";                            "),
        ("declare enum A { B }", ";                   "),
    ]);
}

#[test]
fn imports_and_exports_of_types_are_blanked() {
    check(&[
        ("import type { A } from \"b\";", ";                          "),
        (
            "import { type A, b, type C } from \"d\";",
            "import {         b,        } from \"d\";",
        ),
        (
            "import a, { type B as C } from \"d\";",
            "import a, {             } from \"d\";",
        ),
        ("export { type A, b };", "export {         b };"),
        ("import type a = require(\"b\");", ";                            "),
    ]);
}

#[test]
fn classes_keep_their_code() {
    check(&[
        (
            "abstract class A<B> extends C<D> implements E, F<G> { }",
            "         class A    extends C                       { }",
        ),
        (
            "export default class implements A { }",
            "export default class              { }",
        ),
        ("export abstract class A { }", "export          class A { }"),
        (
            "class A { private readonly b: C = 1; public static d?: E; f!: G }",
            "class A {                  b    = 1;        static d    ; f ;   }",
        ),
        (
            "class A { constructor(private: B) {} public async c?(d: E): F {} }",
            "class A { constructor(private   ) {}        async c (d   )    {} }",
        ),
        (
            "class A { abstract b(): C; declare d: E; [f: string]: G; h(): I; h() {} }",
            "class A { ;                ;             ;               ;       h() {} }",
        ),
        (
            "class A { public; get = 1; static readonly = 2 }",
            "class A { public; get = 1; static readonly = 2 }",
        ),
    ]);
}

#[test]
fn statements_stay_apart_without_semicolons() {
    check(&[
        ("const a = b as C\n(d)", "const a = b;    \n(d)"),
        ("const a = b satisfies C\n[d].e()", "const a = b;           \n[d].e()"),
        ("const a = b\ntype C = D\n(e)", "const a = b\n;         \n(e)"),
        (
            "class A { b = 1\npublic [c]() {} }",
            "class A { b = 1\n;      [c]() {} }",
        ),
        ("class A { get: B\nc() {} }", "class A { get;  \nc() {} }"),
        ("a as B\n+ c", "a     \n+ c"),
    ]);
}

#[test]
fn arrows_stay_on_the_line_of_their_parameters() {
    check(&[
        ("const f = (a)\n: B => a", "const f = (a \n  ) => a"),
        ("const f = (a): {\n  b: C\n} => a", "const f = (a    \n      \n) => a"),
        ("const f = async <\n  A\n>(b) => b", "const f = async (\n   \n  b) => b"),
        ("f = <A,\nB>(c: A) => c", "f = (  \n   c   ) => c"),
    ]);
}

#[test]
fn lines_and_columns_are_those_of_the_source() {
    let text = "const ä: Größe<\r\n  'é'\r\n> = f();\nthrow new Error(`${ä}`);";
    let erased = erase(text).unwrap();
    assert_eq!(erased, "const ä        \r\n     \r\n  = f();\nthrow new Error(`${ä}`);");
    let place = |text: &str| position_of(text, "throw");
    assert_eq!(place(&erased), place(text));
}

fn position_of(text: &str, word: &str) -> String {
    blanks::position(text, text.find(word).unwrap())
}

#[test]
fn javascript_stays_as_it_is() {
    let text = "import { log } from \"informant\";\nexport const onAdd = (pod, { old }) => log.info(pod?.a ?? old);\n\
                class A { static #b = 1; get c() { return a < b && c > (d) } }\nlabel: for (;;) break label;\n";
    assert_eq!(erase(text).as_deref(), Ok(text));
}

#[test]
fn syntax_with_code_is_refused_with_what_to_write() {
    let problem = |text: &str| erase(text).unwrap_err();
    let problems = [
        "enum Phase { A }",
        "export const enum Phase { A }",
        "const a = 1;\nnamespace B { export const c = 1 }",
        "class A { constructor(private b: C) {} }",
        "@sealed class A {}",
        "class A { @sealed b() {} }",
        "import a = require(\"a\");",
        "import a = B.c;",
        "export = a;",
        "const a = <B>c;",
        "const a: = 1;",
        "function f( {",
        "enum A {}\nenum B {}",
        "const a = b ** c as number ** d;",
    ];
    let problems = problems.map(problem).join("\n");
    insta::assert_snapshot!(problems, @r#"
    1:1: an enum needs more than erasing its types; write an object: const Phase = { … } as const
    1:8: an enum needs more than erasing its types; write an object: const Phase = { … } as const
    2:1: a namespace with code needs more than erasing its types; move its content out of it
    1:23: a parameter property needs more than erasing its types; declare a field, and assign it in the constructor: this.NAME = NAME
    1:1: a decorator needs more than erasing its types; call a function with the class or method instead
    1:11: a decorator needs more than erasing its types; call a function with the class or method instead
    1:1: `import =` needs more than erasing its types; write import a from "…", or const a = …
    1:1: `import =` needs more than erasing its types; write import a from "…", or const a = …
    1:1: `export =` needs more than erasing its types; write export default
    1:11: a type in front of an expression needs more than erasing its types; write it behind: EXPRESSION as TYPE
    1:10: SyntaxError: Unexpected token
    1:14: SyntaxError: Expected `}` but found `EOF`
    1:1: an enum needs more than erasing its types; write an object: const A = { … } as const
    1:11: a power of a typed power needs more than erasing its types; put parentheses around the first one
    "#);
    // With parentheses of its own it keeps its meaning.
    assert_eq!(
        erase("const a = (b ** c as number) ** d;").unwrap(),
        "const a = (b ** c          ) ** d;"
    );
}

#[test]
fn any_prefix_of_a_script_is_erased_or_refused() {
    let text = "import { type A, b } from 'c';\nexport const f = async <T,>(a: T): Promise<\nT> => a! as T;\n\
                abstract class D<E> implements F { private ['g']?: H\n*i(this: J) {} }\n";
    for (length, _) in text.char_indices() {
        if let Ok(erased) = erase(&text[..length]) {
            assert_eq!(erased.chars().count(), text[..length].chars().count());
        }
    }
}

//! Erases the types of TypeScript. What is left is JavaScript with the same lines and columns.
//!
//! ```text
//! const a: number = f<T>(b!);   ──▶   const a         = f   (b );
//! ```
//!
//! Types are replaced by spaces ([`Blanks`]), so that errors and stack traces need no map. Syntax that stands for code,
//! such as an enum, is refused with what to write instead: the rules are those of TypeScript's `erasableSyntaxOnly` and
//! `verbatimModuleSyntax`. A semicolon or a parenthesis is put into an erased type where the rest would otherwise mean
//! something else.
//!
//! The parser is recursive, and its input is written by others: this runs in the compiler's process only.

mod blanks;

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    AccessorProperty, AccessorPropertyType, ArrowFunctionExpression, BinaryExpression, Class, Declaration, Decorator,
    ExportAllDeclaration, ExportDeclaration, ExportDefaultDeclaration, ExportDefaultDeclarationKind,
    ExportFromDeclaration, ExportNamedDeclaration, ExportSpecifier, Expression, FormalParameter, Function,
    ImportDeclaration, ImportDeclarationSpecifier, ImportOrExportKind, MethodDefinition, MethodDefinitionType,
    PropertyDefinition, PropertyDefinitionType, PropertyKey, Statement, TSAsExpression, TSEnumDeclaration,
    TSExportAssignment, TSImportEqualsDeclaration, TSIndexSignature, TSInstantiationExpression, TSNamespaceDeclaration,
    TSNamespaceDeclarationBody, TSNamespaceExportDeclaration, TSNonNullExpression, TSSatisfiesExpression, TSType,
    TSTypeAnnotation, TSTypeAssertion, TSTypeParameterDeclaration, TSTypeParameterInstantiation, VariableDeclarator,
};
use oxc_ast_visit::{Visit, walk};
use oxc_parser::Parser;
use oxc_span::{GetSpan, SourceType, Span};
use oxc_syntax::operator::BinaryOperator;
use oxc_syntax::scope::ScopeFlags;

use self::blanks::Blanks;

/// Changes when the same text gets another result. Results are kept with it.
pub(crate) const ERASER_VERSION: u32 = 1;

/// Stack of the thread that parses: 32 MiB. The parser is recursive.
const STACK_BYTES: usize = 32 << 20;

/// Words before the name of a member of a class that are types.
const MODIFIERS: [&str; 7] = [
    "public",
    "private",
    "protected",
    "readonly",
    "override",
    "abstract",
    "declare",
];

/// The JavaScript in a TypeScript module. Takes a millisecond for 100 lines.
/// Errors: the first problem, with its line and column from 1: `3:14: message`.
pub(crate) fn erase_types(text: &[u8]) -> Result<String, String> {
    let text = str::from_utf8(text).map_err(|error| error.to_string())?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let erasing = thread.spawn_scoped(scope, || erase(text));
        let erasing = erasing.map_err(|error| format!("failed to spawn a thread: {error}"))?;
        let panicked = |_| Err("the parser panicked".to_owned());
        erasing.join().unwrap_or_else(panicked)
    })
}

fn erase(text: &str) -> Result<String, String> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, text, SourceType::ts().with_module(true)).parse();
    if let Some(error) = parsed.diagnostics.into_iter().next() {
        let offset = error.labels.first().map_or(0, |label| label.offset());
        let at = blanks::position(text, offset as usize);
        return Err(format!("{at}: SyntaxError: {}", error.message));
    }
    let comments = parsed.program.comments.iter();
    let comments = comments.map(|comment| (comment.span.start as usize, comment.span.end as usize));
    let mut eraser = Eraser {
        blanks: Blanks::new(text, comments.collect()),
        problems: Vec::new(),
    };
    eraser.visit_program(&parsed.program);
    match eraser.problems.into_iter().min() {
        Some((offset, message)) => Err(format!("{}: {message}", blanks::position(text, offset))),
        None => Ok(eraser.blanks.finish()),
    }
}

struct Eraser<'s> {
    blanks: Blanks<'s>,
    /// Where, and what.
    problems: Vec<(usize, String)>,
}

impl Eraser<'_> {
    fn refuse(&mut self, span: Span, what: &str, instead: &str) {
        let message = format!("{what} needs more than erasing its types; {instead}");
        self.problems.push((span.start as usize, message));
    }

    /// Blanks a statement or a member of a class.
    fn statement(&mut self, span: Span) {
        self.blanks.blank(span);
        // The statement before may end here without a semicolon.
        self.blanks.put(span.start, ';');
    }

    /// Blanks what follows `expression`, to the end of the type at `end`.
    fn after_expression(&mut self, expression: Span, end: u32) {
        self.blanks.blank(Span::new(expression.end, end));
        // A type cannot be called: the next statement begins there.
        if ["(", "[", "`"].contains(&self.blanks.symbol(end)) {
            self.blanks.put(expression.end, ';');
        }
    }

    /// Blanks the modifiers of a member that begins at `start` and whose name begins at `name`.
    fn modifiers(&mut self, start: u32, name: u32) {
        let (mut at, mut is_first) = (start, false);
        while at < name {
            let word = self.blanks.word(at);
            if word.is_empty() {
                break;
            }
            let end = at + word.len() as u32;
            if MODIFIERS.contains(&word) {
                self.blanks.blank(Span::new(at, end));
                is_first |= at == start;
            }
            at = self.blanks.next(end);
        }
        // The member before may end here without a semicolon.
        if is_first && ["[", "*"].contains(&self.blanks.symbol_at(at)) {
            self.blanks.put(start, ';');
        }
    }

    /// Blanks the mark `?` or `!` after a name that ends at `end`.
    fn mark(&mut self, end: u32) {
        let mut at = self.blanks.next(end);
        if self.blanks.symbol_at(at) == "]" {
            at = self.blanks.next(at + 1);
        }
        if ["?", "!"].contains(&self.blanks.symbol_at(at)) {
            self.blanks.blank(Span::new(at, at + 1));
        }
    }

    /// Blanks an element of a list, with the comma after it.
    fn element(&mut self, span: Span) {
        let next = self.blanks.next(span.end);
        let end = if self.blanks.symbol_at(next) == "," {
            next + 1
        } else {
            span.end
        };
        self.blanks.blank(Span::new(span.start, end));
    }

    fn export_specifiers<'s, 'a: 's>(&mut self, specifiers: impl Iterator<Item = &'s ExportSpecifier<'a>>) {
        for specifier in specifiers.filter(|specifier| specifier.export_kind == ImportOrExportKind::Type) {
            self.element(specifier.span);
        }
    }
}

impl<'a> Visit<'a> for Eraser<'_> {
    fn visit_declaration(&mut self, it: &Declaration<'a>) {
        match is_erased(it) {
            true => self.statement(it.span()),
            false => walk::walk_declaration(self, it),
        }
    }

    fn visit_export_declaration(&mut self, it: &ExportDeclaration<'a>) {
        match is_erased(&it.declaration) {
            true => self.statement(it.span),
            false => walk::walk_declaration(self, &it.declaration),
        }
    }

    fn visit_export_default_declaration(&mut self, it: &ExportDefaultDeclaration<'a>) {
        match &it.declaration {
            ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => self.statement(it.span),
            ExportDefaultDeclarationKind::FunctionDeclaration(function) if function.body.is_none() => {
                self.statement(it.span);
            }
            _ => walk::walk_export_default_declaration(self, it),
        }
    }

    fn visit_export_named_declaration(&mut self, it: &ExportNamedDeclaration<'a>) {
        match it.export_kind {
            ImportOrExportKind::Type => self.statement(it.span),
            ImportOrExportKind::Value => self.export_specifiers(it.specifiers.iter()),
        }
    }

    fn visit_export_from_declaration(&mut self, it: &ExportFromDeclaration<'a>) {
        match it.export_kind {
            ImportOrExportKind::Type => self.statement(it.span),
            ImportOrExportKind::Value => self.export_specifiers(it.specifiers.iter()),
        }
    }

    fn visit_export_all_declaration(&mut self, it: &ExportAllDeclaration<'a>) {
        if it.export_kind == ImportOrExportKind::Type {
            self.statement(it.span);
        }
    }

    fn visit_import_declaration(&mut self, it: &ImportDeclaration<'a>) {
        if it.import_kind == ImportOrExportKind::Type {
            return self.statement(it.span);
        }
        for specifier in it.specifiers.iter().flatten() {
            if let ImportDeclarationSpecifier::ImportSpecifier(specifier) = specifier
                && specifier.import_kind == ImportOrExportKind::Type
            {
                self.element(specifier.span);
            }
        }
    }

    fn visit_ts_namespace_export_declaration(&mut self, it: &TSNamespaceExportDeclaration<'a>) {
        self.statement(it.span);
    }

    fn visit_ts_enum_declaration(&mut self, it: &TSEnumDeclaration<'a>) {
        let instead = format!("write an object: const {} = {{ … }} as const", it.id.name);
        self.refuse(it.span, "an enum", &instead);
    }

    fn visit_ts_namespace_declaration(&mut self, it: &TSNamespaceDeclaration<'a>) {
        self.refuse(it.span, "a namespace with code", "move its content out of it");
    }

    fn visit_ts_import_equals_declaration(&mut self, it: &TSImportEqualsDeclaration<'a>) {
        let instead = format!("write import {0} from \"…\", or const {0} = …", it.id.name);
        self.refuse(it.span, "`import =`", &instead);
    }

    fn visit_ts_export_assignment(&mut self, it: &TSExportAssignment<'a>) {
        self.refuse(it.span, "`export =`", "write export default");
    }

    fn visit_decorator(&mut self, it: &Decorator<'a>) {
        self.refuse(
            it.span,
            "a decorator",
            "call a function with the class or method instead",
        );
    }

    fn visit_ts_type_assertion(&mut self, it: &TSTypeAssertion<'a>) {
        self.refuse(
            it.span,
            "a type in front of an expression",
            "write it behind: EXPRESSION as TYPE",
        );
    }

    fn visit_ts_type_annotation(&mut self, it: &TSTypeAnnotation<'a>) {
        self.blanks.blank(it.span);
    }

    fn visit_ts_type(&mut self, it: &TSType<'a>) {
        self.blanks.blank(it.span());
    }

    fn visit_ts_type_parameter_declaration(&mut self, it: &TSTypeParameterDeclaration<'a>) {
        self.blanks.blank(it.span);
    }

    fn visit_ts_type_parameter_instantiation(&mut self, it: &TSTypeParameterInstantiation<'a>) {
        self.blanks.blank(it.span);
    }

    fn visit_binary_expression(&mut self, it: &BinaryExpression<'a>) {
        // `(a ** b as T) ** c`: without the type and parentheses of its own, it would be `a ** (b ** c)`.
        let typed = match &it.left {
            Expression::TSAsExpression(left) => Some(&left.expression),
            Expression::TSSatisfiesExpression(left) => Some(&left.expression),
            _ => None,
        };
        if it.operator == BinaryOperator::Exponential
            && matches!(typed, Some(Expression::BinaryExpression(left)) if left.operator == it.operator)
        {
            self.refuse(
                it.span,
                "a power of a typed power",
                "put parentheses around the first one",
            );
        }
        walk::walk_binary_expression(self, it);
    }

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        self.visit_expression(&it.expression);
        self.after_expression(it.expression.span(), it.span.end);
    }

    fn visit_ts_satisfies_expression(&mut self, it: &TSSatisfiesExpression<'a>) {
        self.visit_expression(&it.expression);
        self.after_expression(it.expression.span(), it.span.end);
    }

    fn visit_ts_non_null_expression(&mut self, it: &TSNonNullExpression<'a>) {
        self.visit_expression(&it.expression);
        self.blanks.blank(Span::new(it.expression.span().end, it.span.end));
    }

    fn visit_ts_instantiation_expression(&mut self, it: &TSInstantiationExpression<'a>) {
        self.visit_expression(&it.expression);
        self.blanks.blank(it.type_arguments.span);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if it.definite {
            self.mark(it.id.span().end);
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        if let Some(this) = &it.this_param {
            self.element(this.span);
        }
        walk::walk_function(self, it, flags);
    }

    fn visit_ts_this_parameter(&mut self, _it: &oxc_ast::ast::TSThisParameter<'a>) {}

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        walk::walk_arrow_function_expression(self, it);
        // No line may end before the parameters of an async function, or between parameters and arrow: parentheses
        // are moved to where they end it.
        let params = it.params.span;
        if let Some(types) = &it.type_parameters
            && self.blanks.has_line_end(Span::new(types.span.start, params.start))
        {
            self.blanks.blank(Span::new(params.start, params.start + 1));
            self.blanks.put(types.span.start, '(');
        }
        if let Some(answer) = &it.return_type
            && self.blanks.has_line_end(Span::new(params.end, answer.span.end))
        {
            self.blanks.blank(Span::new(params.end - 1, params.end));
            self.blanks.put_last(answer.span, ')');
        }
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        if it.accessibility.is_some() || it.readonly || it.r#override {
            let instead = "declare a field, and assign it in the constructor: this.NAME = NAME";
            self.refuse(it.span, "a parameter property", instead);
        }
        if it.optional {
            self.mark(it.pattern.span().end);
        }
        walk::walk_formal_parameter(self, it);
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        if it.r#abstract {
            self.blanks.blank_word_near(it.span.start, "abstract");
        }
        let head_end = [
            it.heritage
                .as_ref()
                .and_then(|heritage| heritage.type_arguments.as_ref().map(|types| types.span.end)),
            it.heritage.as_ref().map(|heritage| heritage.expression.span().end),
            it.type_parameters.as_ref().map(|types| types.span.end),
            it.id.as_ref().map(|id| id.span.end),
        ];
        if !it.implements.is_empty() {
            let end = head_end.into_iter().flatten().next();
            let start = end.map_or_else(
                || self.blanks.find_word(it.span, "implements"),
                |end| self.blanks.next(end),
            );
            self.blanks.blank(Span::new(start, it.body.span.start));
        }
        self.visit_decorators(&it.decorators);
        if let Some(types) = &it.type_parameters {
            self.visit_ts_type_parameter_declaration(types);
        }
        if let Some(heritage) = &it.heritage {
            self.visit_class_heritage(heritage);
        }
        self.visit_class_body(&it.body);
    }

    fn visit_method_definition(&mut self, it: &MethodDefinition<'a>) {
        if it.r#type == MethodDefinitionType::TSAbstractMethodDefinition || it.value.body.is_none() {
            return self.statement(it.span);
        }
        self.modifiers(it.span.start, start_of(&it.key));
        if it.optional {
            self.mark(it.key.span().end);
        }
        walk::walk_method_definition(self, it);
    }

    fn visit_property_definition(&mut self, it: &PropertyDefinition<'a>) {
        if it.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition || it.declare {
            return self.statement(it.span);
        }
        self.modifiers(it.span.start, start_of(&it.key));
        if it.optional || it.definite {
            self.mark(it.key.span().end);
        }
        walk::walk_property_definition(self, it);
        // The name alone might be the beginning of what follows: `get`, `static`.
        if let Some(types) = &it.type_annotation
            && it.value.is_none()
            && self.blanks.symbol(types.span.end) != ";"
        {
            self.blanks.put(types.span.start, ';');
        }
    }

    fn visit_accessor_property(&mut self, it: &AccessorProperty<'a>) {
        if it.r#type == AccessorPropertyType::TSAbstractAccessorProperty {
            return self.statement(it.span);
        }
        self.modifiers(it.span.start, start_of(&it.key));
        if it.definite {
            self.mark(it.key.span().end);
        }
        walk::walk_accessor_property(self, it);
    }

    fn visit_ts_index_signature(&mut self, it: &TSIndexSignature<'a>) {
        self.statement(it.span);
    }
}

fn start_of(name: &PropertyKey<'_>) -> u32 {
    name.span().start
}

/// Whether nothing is left of a declaration.
fn is_erased(declaration: &Declaration<'_>) -> bool {
    match declaration {
        Declaration::VariableDeclaration(it) => it.declare,
        Declaration::FunctionDeclaration(it) => it.declare || it.body.is_none(),
        Declaration::ClassDeclaration(it) => it.declare,
        Declaration::TSTypeAliasDeclaration(_)
        | Declaration::TSInterfaceDeclaration(_)
        | Declaration::TSExternalModuleDeclaration(_)
        | Declaration::TSGlobalDeclaration(_) => true,
        Declaration::TSEnumDeclaration(it) => it.declare,
        Declaration::TSNamespaceDeclaration(it) => it.declare || is_without_code(&it.body),
        Declaration::TSImportEqualsDeclaration(it) => it.import_kind == ImportOrExportKind::Type,
    }
}

/// Whether a namespace has only types.
fn is_without_code(body: &TSNamespaceDeclarationBody<'_>) -> bool {
    match body {
        TSNamespaceDeclarationBody::TSNamespaceDeclaration(it) => is_without_code(&it.body),
        TSNamespaceDeclarationBody::TSModuleBlock(it) => it.body.iter().all(|statement| match statement {
            Statement::EmptyStatement(_) => true,
            Statement::ExportDeclaration(it) => is_erased(&it.declaration),
            statement => statement.as_declaration().is_some_and(is_erased),
        }),
    }
}

#[cfg(test)]
mod tests;

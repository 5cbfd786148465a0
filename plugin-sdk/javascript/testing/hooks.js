// How Node finds what a script imports: a loader of modules, see https://nodejs.org/api/module.html#hooks.
//
// Each instance of a script has modules of its own, as in Informant, so that variables at the top level are not shared:
// their URLs end in `?informant=NUMBER`. The module "informant" is the one of the script runner, over the imports that
// `realms` has for the number. The functions below may run in a thread of their own, and share no memory with the rest.
import { readFileSync } from "node:fs";
import { createRequire, isBuiltin } from "node:module";
import { basename } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const PRELUDE = new URL("../prelude/", import.meta.url).href;

// Of modules that a test imports without a driver.
const NO_INSTANCE = 0;

const numberOf = (url) => /[?&]informant=(\d+)/.exec(url ?? "")?.[1];

const isOfPackage = (url) => url.includes("/node_modules/");

const withNumber = (number) => (found) =>
  found.format === "commonjs" || !found.url.startsWith("file:")
    ? found
    : { ...found, url: `${found.url}?informant=${number}` };

export function resolve(name, context, next) {
  const number = numberOf(context.parentURL);
  const [isOurs, file = "informant"] = /^informant(?::([a-z]+))?$/.exec(name) ?? [];
  if (isOurs)
    return { url: `${PRELUDE}${file}.js?informant=${number ?? NO_INSTANCE}`, format: "module", shortCircuit: true };
  if (number === undefined) return next(name, context);
  if (isBuiltin(name)) {
    throw new Error(
      `imports "${name}" of Node: scripts have no files, sockets and processes, only what "informant" exports`,
    );
  }
  const found = next(name, context);
  return found instanceof Promise ? found.then(withNumber(number)) : withNumber(number)(found);
}

export function load(url, context, next) {
  const number = numberOf(url);
  const path = new URL(url).pathname;
  const text = () => readFileSync(fileURLToPath(url.replace(/\?.*/, "")), "utf8");
  if (number !== undefined && url.startsWith(PRELUDE)) {
    const source = text().replaceAll("globalThis.", `globalThis[Symbol.for("informant.realms")].get(${number}).`);
    return { format: "module", source, shortCircuit: true };
  }
  if (/\.m?ts$/.test(path) && !isOfPackage(path)) {
    if (process.features.typescript) return next(url, { ...context, format: "module-typescript" });
    return { format: "module", source: erased(text(), url.replace(/\?.*/, "")), shortCircuit: true };
  }
  // Whatever package.json says, a script is a module.
  if (number !== undefined && /\.m?js$/.test(path) && !isOfPackage(path))
    return { format: "module", source: text(), shortCircuit: true };
  return next(url, context);
}

/** TypeScript without its types, by the package `typescript`: Node erases them from version 22.18 on. */
function erased(text, url) {
  const ts = typescript(url);
  const compilerOptions = {
    inlineSourceMap: true,
    module: ts.ModuleKind.ESNext,
    target: ts.ScriptTarget.ES2022,
    verbatimModuleSyntax: true,
  };
  const options = { compilerOptions, fileName: url, reportDiagnostics: true };
  const { diagnostics, outputText } = ts.transpileModule(text, options);
  const source = ts.createSourceFile(url, text, ts.ScriptTarget.ES2022);
  const [invalid] = diagnostics.filter(({ start }) => start !== undefined);
  const [start, message] =
    invalid === undefined
      ? (notErasable(ts, source, source) ?? [])
      : [invalid.start, `SyntaxError: ${ts.flattenDiagnosticMessageText(invalid.messageText, " ")}`];
  if (start === undefined) return outputText;
  const { line, character } = source.getLineAndCharacterOfPosition(start);
  // An error that comes from a thread of hooks keeps its members, not its class.
  const place = `${basename(fileURLToPath(url))}:${line + 1}:${character + 1}`;
  throw Object.assign(new Error(`${place}: ${message}`), { isPlaced: true });
}

/** The first syntax that stands for code, and what to write instead: Informant and Node only erase types. */
function notErasable(ts, node, source) {
  const { SyntaxKind } = ts;
  const has = (...kinds) => node.modifiers?.some(({ kind }) => kinds.includes(kind)) ?? false;
  if (has(SyntaxKind.DeclareKeyword)) return undefined;
  const found = (what, instead) => [node.getStart(source), `${what} needs more than erasing its types; ${instead}`];
  const name = node.name?.text;
  switch (node.kind) {
    case SyntaxKind.EnumDeclaration:
      return found("an enum", `write an object: const ${name} = { … } as const`);
    case SyntaxKind.ModuleDeclaration:
      return hasCode(ts, node) ? found("a namespace with code", "move its content out of it") : undefined;
    case SyntaxKind.ImportEqualsDeclaration:
      if (node.isTypeOnly) return undefined;
      return found("`import =`", `write import ${name} from "…", or const ${name} = …`);
    case SyntaxKind.ExportAssignment:
      if (node.isExportEquals) return found("`export =`", "write export default");
      break;
    case SyntaxKind.Decorator:
      return found("a decorator", "call a function with the class or method instead");
    case SyntaxKind.TypeAssertionExpression:
      return found("a type in front of an expression", "write it behind: EXPRESSION as TYPE");
    case SyntaxKind.Parameter: {
      const { OverrideKeyword, PrivateKeyword, ProtectedKeyword, PublicKeyword, ReadonlyKeyword } = SyntaxKind;
      if (has(OverrideKeyword, PrivateKeyword, ProtectedKeyword, PublicKeyword, ReadonlyKeyword))
        return found("a parameter property", "declare a field, and assign it in the constructor: this.NAME = NAME");
    }
  }
  return ts.forEachChild(node, (child) => notErasable(ts, child, source));
}

/** Whether a namespace has more than types. */
function hasCode(ts, { name, body }) {
  const { SyntaxKind } = ts;
  if (!ts.isIdentifier(name) || name.text === "global" || body === undefined) return false;
  if (ts.isModuleDeclaration(body)) return hasCode(ts, body);
  const types = [SyntaxKind.EmptyStatement, SyntaxKind.InterfaceDeclaration, SyntaxKind.TypeAliasDeclaration];
  const isDeclared = ({ modifiers }) => modifiers?.some(({ kind }) => kind === SyntaxKind.DeclareKeyword);
  const isCode = (statement) =>
    ts.isModuleDeclaration(statement)
      ? hasCode(ts, statement)
      : !types.includes(statement.kind) && !isDeclared(statement);
  return body.statements.some(isCode);
}

function typescript(url) {
  for (const from of [url, pathToFileURL(`${process.cwd()}/`)]) {
    try {
      return createRequire(from)("typescript");
    } catch (error) {
      if (error.code !== "MODULE_NOT_FOUND") throw error;
    }
  }
  throw new Error(
    `${url}: this version of Node cannot erase types; use Node 22.18 or later, or \`npm install --save-dev typescript\``,
  );
}

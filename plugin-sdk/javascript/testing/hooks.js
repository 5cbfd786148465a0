// How Node finds what a script imports: a loader of modules, see https://nodejs.org/api/module.html#hooks.
//
// Each instance of a script has modules of its own, as in Informant, so that variables at the top level are not shared:
// their URLs end in `?informant=NUMBER`. The module "informant" is the one of the script runner, over the imports that
// `realms` has for the number. The functions below may run in a thread of their own, and share no memory with the rest.
import { readFileSync } from "node:fs";
import { createRequire, isBuiltin } from "node:module";
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
  const { ModuleKind, ScriptTarget, transpileModule } = typescript(url);
  const compilerOptions = {
    inlineSourceMap: true,
    module: ModuleKind.ESNext,
    target: ScriptTarget.ES2022,
    verbatimModuleSyntax: true,
  };
  return transpileModule(text, { compilerOptions, fileName: url }).outputText;
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

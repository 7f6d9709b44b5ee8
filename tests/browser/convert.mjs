// Converts models in Pyodide under node, with the assembled page's packages: node convert.mjs SITE FOLDER MODEL...
// It writes the IRs into FOLDER/node and prints JSON.

import { readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";

const [site, folder, ...models] = process.argv.slice(2);
const place = join(site, "vendor", "pyodide");
const { loadPyodide } = await import(join(place, "pyodide.mjs"));
const manifest = JSON.parse(readFileSync(join(site, "vendor", "manifest.json"), "utf8"));
const began = performance.now();
const python = await loadPyodide({ indexURL: place });
await python.loadPackage(manifest.packages, { messageCallback() {} });
const browser = python.pyimport("converter.command_line.browser");
browser.open_folder("/models");
const call = (name, ...values) => JSON.parse(browser.call(name, JSON.stringify(values), () => undefined));
const started = performance.now() - began;
const results = {};
mkdirSync(join(folder, "node"), { recursive: true });
for (const name of models) {
  python.FS.writeFile(`/models/${name}`, new Uint8Array(readFileSync(join(folder, name))));
  const before = performance.now();
  const result = call("run", "convert", [name], {});
  results[name] = { exit_code: result.exit_code, milliseconds: performance.now() - before };
  for (const { path } of result.files) {
    writeFileSync(join(folder, "node", path.split("/").at(-1)), python.FS.readFile(`/models/${path}`));
  }
}
console.log(JSON.stringify({ started, results }));

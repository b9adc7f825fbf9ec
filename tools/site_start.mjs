// Makes what the page's worker starts from: start.gz (Python's memory, the standard library imported)
// and packages.gz (an archive of bytecode). Compiling and importing here saves each visitor seconds.
//
//     node tools/site_start.mjs SITE WHEELS
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

const [site, wheels] = process.argv.slice(2).map((path) => resolve(path));
const { loadPyodide } = await import(pathToFileURL(join(site, "pyodide", "pyodide.mjs")));
const load = (options) => loadPyodide({ indexURL: join(site, "pyodide/"), ...options });
const write = (name, bytes) => writeFileSync(join(site, name), gzipSync(bytes, { level: 9 }));

const python = await load();
const packages = "/lib/python3.14/site-packages";
for (const name of readdirSync(wheels)) {
  const wheel = new Uint8Array(readFileSync(join(wheels, name)));
  python.unpackArchive(wheel, "wheel", { extractDir: packages });
}
const here = dirname(fileURLToPath(import.meta.url));
python.runPython(readFileSync(join(here, "site_packages.py"), "utf8"));
write("packages.gz", python.globals.get("archive")(packages).toJs());

// Of a fresh Python: memory cannot be copied once a package with machine code is loaded.
const fresh = await load({ _makeSnapshot: true });
for (const name of python.globals.get("standard_modules")().toJs()) fresh.pyimport(name).destroy();
write("start.gz", fresh.makeMemorySnapshot());

// Runs Python next to the page, so that the page never waits for it: one message in, one state out.
// worker.js?log answers with `workbench.site.log`.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const fetched = async (path) => {
  const found = await fetch(path);
  if (!found.ok) throw new Error(`${path}: ${found.status} ${found.statusText}`);
  return found;
};

const unpacked = async (path) => {
  const plain = (await fetched(path)).body.pipeThrough(new DecompressionStream("gzip"));
  return new Response(plain).arrayBuffer();
};

const started = (async () => {
  const packages = unpacked("packages.gz");
  const pyodide = await loadPyodide({
    indexURL: new URL("pyodide/", import.meta.url).href,
    _loadSnapshot: unpacked("start.gz"),
  });
  pyodide.unpackArchive(await packages, "zip", { extractDir: "/lib/python3.14/site-packages" });
  return pyodide.pyimport(`workbench.site.${new URL(import.meta.url).search.slice(1)}`);
})();

const answer = async (message) => {
  try {
    postMessage({ state: (await started).answer(message) });
  } catch (error) {
    postMessage({ failed: String(error) });
  }
};

addEventListener("message", ({ data }) => answer(data));
answer("");

// Runs Python next to the page, so that the page never waits for it: one message in, one state out.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const fetched = async (path) => {
  const found = await fetch(path);
  if (!found.ok) throw new Error(`${path}: ${found.status} ${found.statusText}`);
  return found;
};

const started = (async () => {
  const names = await (await fetched("wheels.json")).json();
  const wheels = names.map(async (name) => (await fetched(`wheels/${name}`)).arrayBuffer());
  const pyodide = await loadPyodide({ indexURL: new URL("pyodide/", import.meta.url).href });
  for (const wheel of await Promise.all(wheels)) pyodide.unpackArchive(wheel, "wheel");
  return pyodide.pyimport("workbench.site.page");
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

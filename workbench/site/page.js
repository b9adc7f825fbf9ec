// Gives the front door's script what Jupyter gives it elsewhere: values, and messages to Python.
import view from "./front_door.js";

const place = document.querySelector("main");
const status = document.querySelector("[role=status]");
const listeners = new Set();
let state = null;

const failed = (text) => {
  status.textContent = `Python could not be started in this browser. ${text}`;
  status.hidden = false;
};

const worker = new Worker(new URL("worker.js?page", import.meta.url), { type: "module" });
const model = {
  get: (name) => state[name],
  on: (_events, listen) => listeners.add(listen),
  off: (_events, listen) => listeners.delete(listen),
  send: (message) => worker.postMessage(JSON.stringify(message)),
};

worker.addEventListener("error", (event) => failed(event.message ?? ""));
worker.addEventListener("message", ({ data }) => {
  if (data.failed) return failed(data.failed);
  const isFirst = state === null;
  state = JSON.parse(data.state);
  if (!isFirst) return listeners.forEach((listen) => listen());
  status.hidden = true;
  view.render({ model, el: place });
});

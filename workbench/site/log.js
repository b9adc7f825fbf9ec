// Sends a log, or the link to an explanation, to Python, and shows what it answers.
const element = (id) => document.getElementById(id);
const status = document.querySelector("[role=status]");
const say = (text) => { status.textContent = text; status.hidden = !text; };
const worker = new Worker(new URL("worker.js?log", import.meta.url), { type: "module" });
const send = (message) => { say("Explaining ..."); worker.postMessage(JSON.stringify(message)); };
const sendLink = () => { if (location.hash) send({ link: location.hash }); };
let isReady = false;

element("doctor").addEventListener("submit", (event) => {
  event.preventDefault();
  send(Object.fromEntries(new FormData(event.target)));
});
element("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(element("copy").value);
  say("Copied.");
});
addEventListener("hashchange", sendLink);
worker.addEventListener("error", (event) => say(`Python failed: ${event.message ?? ""}`));
worker.addEventListener("message", ({ data }) => {
  if (data.failed) return say(`Python failed: ${data.failed}`);
  say("");
  const { html, link, scenario } = JSON.parse(data.state);
  element("report").innerHTML = html;
  element("links").hidden = !link;
  element("copy").value = location.href.split("#")[0] + link;
  element("scenario").hidden = !scenario;
  element("scenario").href = `./${scenario}`;
  if (!isReady) sendLink();
  isReady = true;
});

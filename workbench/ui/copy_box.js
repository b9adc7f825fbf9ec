function render({ model, el }) {
  const box = document.createElement("div");
  const button = document.createElement("button");
  const text = document.createElement("pre");
  box.className = "wb";
  text.className = "wb-code";
  button.className = "jupyter-button wb-copy";
  const label = () => "Copy " + model.get("label");
  const draw = () => { text.textContent = model.get("text"); button.textContent = label(); };
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(model.get("text"));
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text);
      button.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { button.textContent = label(); }, 1500);
  });
  model.on("change:text", draw);
  draw();
  box.append(button, text);
  el.append(box);
}
export default { render };

const SHOWN_MS = 1500;
const OUTPUTS = ["stream", "display_data", "execute_result", "error"];
const CELL = ".jp-Notebook .jp-Cell";

// JupyterLab's notebook: its widget manager knows it. Other pages have none.
const notebookOf = (model) => {
  const context = model.get("layout")?.widget_manager?.context;
  return context?.model?.sharedModel?.insertCell ? context : null;
};

// Runs code in a new cell below the one of `el`; at the end where that is a view of its own.
async function runBelow(context, el, code) {
  const { model, sessionContext } = context;
  const own = el.closest(CELL)?.dataset.windowedListIndex;
  const at = own === undefined ? model.cells.length : Number(own) + 1;
  model.sharedModel.insertCell(at, { cell_type: "code", source: code, metadata: { trusted: true } });
  const cell = model.cells.get(at);
  const future = sessionContext.session.kernel.requestExecute({ code });
  future.onIOPub = ({ header: { msg_type: type }, content }) => {
    if (OUTPUTS.includes(type)) cell.outputs.add({ ...content, output_type: type });
  };
  cell.executionCount = (await future.done).content.execution_count;
  document.querySelector(`${CELL}[data-windowed-list-index="${at}"]`)?.scrollIntoView();
}

function button(text, act) {
  const made = document.createElement("button");
  made.className = "jupyter-button wb-copy";
  made.textContent = text;
  made.addEventListener("click", act);
  return made;
}

function render({ model, el }) {
  const box = document.createElement("div");
  const text = document.createElement("pre");
  box.className = "wb";
  text.className = "wb-code";
  const label = `Copy ${model.get("label")}`;
  const copy = button(label, async () => {
    try {
      await navigator.clipboard.writeText(model.get("text"));
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text);
      copy.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { copy.textContent = label; }, SHOWN_MS);
  });
  const draw = () => { text.textContent = model.get("text"); };
  model.on("change:text", draw);
  draw();
  const context = model.get("opens") && notebookOf(model);
  if (context) {
    box.append(button("Open in a cell of its own", async () => {
      await runBelow(context, el, model.get("text"));
      model.send("opened");
    }));
  }
  box.append(copy, text);
  el.append(box);
  return () => model.off("change:text", draw);
}
export default { render };

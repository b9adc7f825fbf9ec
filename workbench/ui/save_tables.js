// Saves the tables that a lab shows as one file, with an empty line between them.
const LABEL = "Save tables as CSV", NONE = "No table is shown", SHOWN_MS = 1500;
const FORMULA = /^[=+\-@\t\r]/; // a spreadsheet runs a text that begins so

// Also of a folded table, whose inner text is empty.
function cell({ textContent }) {
  const text = textContent.trim().replace(/\s+/g, " ");
  const quoted = text.replaceAll('"', '""');
  return FORMULA.test(text) && !Number.isFinite(Number(text)) ? `"'${quoted}"` : `"${quoted}"`;
}

function render({ model, el }) {
  const save = document.createElement("button");
  save.className = "jupyter-button";
  save.textContent = LABEL;
  save.addEventListener("click", () => {
    const tables = [...el.closest(".wb-tab").querySelectorAll("table")];
    const rows = ({ rows: all }) => [...all].map((row) => [...row.cells].map(cell).join(","));
    const shown = tables.filter((one) => one.getClientRects().length).map(rows);
    if (!shown.length) { // those of a lab's other parts are hidden
      save.textContent = NONE;
      setTimeout(() => { save.textContent = LABEL; }, SHOWN_MS);
      return;
    }
    const text = shown.map((lines) => lines.join("\r\n")).join("\r\n\r\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" }));
    link.download = `${model.get("name")}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href));
  });
  el.classList.add("wb-save-tables");
  el.append(save);
}
export default { render };

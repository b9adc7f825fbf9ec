// Filters and sorts what the build computed; every number and word of a cell comes from there.
const STEP = 100;
const view = new URLSearchParams(location.hash.slice(1));
const { about, same, columns, rows } = await (await fetch("board.json")).json();
const element = (id) => document.getElementById(id);
const made = (name, properties = {}, ...children) => {
  const found = Object.assign(document.createElement(name), properties);
  found.append(...children);
  return found;
};
const places = Object.fromEntries(columns.map(({ name }, place) => [name, place]));
const valueOf = (row, place) => columns[place].values[row[place]][0];
const textOf = (row, place) => columns[place].values[row[place]][1];
let shown = STEP;

// What has few values is chosen; a model is searched.
const filters = columns.filter(({ name, field }) => field || name === "starts").map((column) => {
  const { name, label, values } = column;
  const texts = values.map(([, text]) => text);
  const control = name === "model" ? made("input", { type: "search", placeholder: "any" })
    : made("select", {}, made("option", { value: "", textContent: "any" }),
      ...texts.map((text) => made("option", { textContent: text })));
  control.value = view.get(name) ?? (name === "starts" && !view.size ? "yes" : "");
  control.ariaLabel = label;
  control.addEventListener("input", () => { shown = STEP; draw(); });
  element("filters").append(made("label", {}, `${label} `, control));
  return { name, place: places[name], control };
});

const passes = (row) => filters.every(({ name, place, control: { value } }) => !value
  || (name === "model" ? textOf(row, place).toLowerCase().includes(value.toLowerCase())
    : textOf(row, place) === value));

const compared = (place, isDown) => (one, two) => {
  const [a, b] = [valueOf(one, place), valueOf(two, place)];
  if (a === b) return 0;
  if (a === null || b === null) return a === null ? 1 : -1; // what has no value comes last
  return (a < b ? -1 : 1) * (isDown ? -1 : 1);
};

const sortBy = (name) => {
  const isDown = columns[places[name]].best === "large";
  const first = isDown ? `-${name}` : name;
  view.set("sort", view.get("sort") === first ? (isDown ? name : `-${name}`) : first);
  draw();
};

const heading = ({ name, label, best }) => {
  const sort = view.get("sort") ?? "";
  const isSorted = sort.replace(/^-/, "") === name;
  const arrow = isSorted ? (sort.startsWith("-") ? " ▼" : " ▲") : "";
  const button = made("button", { type: "button", textContent: label + arrow });
  button.dataset.sort = name;
  if (best) button.title = `Best: ${best}`;
  button.addEventListener("click", () => sortBy(name));
  const cell = made("th", { scope: "col" }, button);
  if (isSorted) cell.ariaSort = sort.startsWith("-") ? "descending" : "ascending";
  return cell;
};

const line = (row) => {
  const fields = { ...same };
  columns.forEach(({ name, field }, place) => { if (field) fields[name] = valueOf(row, place); });
  const href = `./#scenario=${encodeURIComponent(JSON.stringify(fields))}`;
  return made("tr", {}, ...columns.map(({ name }, place) => made("td", {
    className: typeof valueOf(row, place) === "number" ? "number" : "",
  }, name === "model" ? made("a", { href }, textOf(row, place)) : textOf(row, place))));
};

const draw = () => {
  for (const { name, control } of filters) {
    if (control.value) view.set(name, control.value);
    else view.delete(name);
  }
  if (!view.size) view.set("starts", "");
  history.replaceState(null, "", `#${view}`);
  const sort = view.get("sort") ?? "";
  const place = places[sort.replace(/^-/, "")];
  const found = rows.filter(passes);
  if (place !== undefined) found.sort(compared(place, sort.startsWith("-")));
  const focused = document.activeElement?.dataset?.sort;
  element("board").replaceChildren(
    made("thead", {}, made("tr", {}, ...columns.map(heading))),
    made("tbody", {}, ...found.slice(0, shown).map(line)),
  );
  if (focused) document.querySelector(`[data-sort="${focused}"]`).focus();
  element("more").hidden = found.length <= shown;
  const count = (number) => number.toLocaleString("en");
  document.querySelector("[role=status]").textContent = `${count(found.length)} of `
    + `${count(rows.length)} scenarios, ${count(Math.min(shown, found.length))} shown. A model's `
    + "name opens its scenario.";
};

element("about").textContent = about;
element("filters").addEventListener("submit", (event) => event.preventDefault());
element("more").addEventListener("click", () => { shown += STEP; draw(); });
draw();

// A text that completes words: what may come next is Python's answer, for the cursor's place.
const WAIT_MS = 80;

class Box {
  constructor(model, el) {
    Object.assign(this, { model, chosen: 0, shut: true });
    const made = (name, attributes) => Object.assign(document.createElement(name), attributes);
    const id = `wb-${Math.random().toString(36).slice(2)}`;
    this.label = made("label", { textContent: model.get("label"), htmlFor: id, className: "widget-label" });
    this.text = made("textarea", { id, rows: 8, spellcheck: false, value: model.get("value") });
    this.list = made("div", { id: `${id}-list`, hidden: true });
    this.list.setAttribute("role", "listbox");
    const role = { "aria-autocomplete": "list", "aria-controls": this.list.id };
    for (const [name, value] of Object.entries(role)) this.text.setAttribute(name, value);
    const on = (type, act) => this.text.addEventListener(type, act);
    on("input", () => { this.shut = false; this.changed(); });
    on("click", () => { this.shut = false; this.ask(); });
    on("keydown", (event) => this.key(event));
    on("keyup", (event) => event.key.startsWith("Arrow") && !this.open && this.ask());
    on("blur", () => { this.shut = true; this.draw(); });
    this.list.addEventListener("mousedown", (event) => {
      event.preventDefault();
      const option = event.target.closest("[role=option]");
      if (option) this.take(Number(option.dataset.number));
    });
    this.listen = () => this.draw();
    this.follow = () => {
      if (this.text.value !== model.get("value")) this.text.value = model.get("value");
    };
    model.on("change:offers", this.listen);
    model.on("change:value", this.follow);
    el.classList.add("wb", "wb-completing");
    el.append(this.label, this.text, this.list);
  }

  end() {
    clearTimeout(this.waiting);
    this.model.off("change:offers", this.listen);
    this.model.off("change:value", this.follow);
  }

  get open() { return !this.list.hidden; }

  changed() {
    this.model.set("value", this.text.value);
    this.model.save_changes();
    this.draw();
    this.ask();
  }

  ask() {
    clearTimeout(this.waiting);
    const send = () => this.model.send({ text: this.text.value, at: this.text.selectionStart });
    this.waiting = setTimeout(send, WAIT_MS);
  }

  // The words that still fit, by themselves or by their meaning: since they were queried, their word may have grown at the cursor.
  fitting() {
    const { text = "", at = 0, start = 0, words = [] } = this.model.get("offers");
    const { value, selectionStart: cursor } = this.text;
    const entered = value.slice(start, cursor);
    const grew = value.slice(0, start) === text.slice(0, start)
      && value.slice(cursor) === text.slice(at) && entered.startsWith(text.slice(start, at));
    const part = entered.toLowerCase();
    const isAnswer = grew && entered === text.slice(start, at);
    const fits = (one) => isAnswer || one.some((words) => words.toLowerCase().includes(part));
    return { start, cursor, words: grew ? words.filter(fits) : [] };
  }

  draw() {
    const options = this.shut ? [] : this.fitting().words;
    this.chosen = 0;
    this.list.replaceChildren(...options.map(([word, meaning], number) => {
      const option = document.createElement("div");
      option.append(word, Object.assign(document.createElement("small"), { textContent: meaning }));
      option.setAttribute("role", "option");
      option.id = `${this.list.id}-${number}`;
      option.dataset.number = number;
      return option;
    }));
    this.list.hidden = !options.length;
    this.mark();
  }

  mark() {
    for (const option of this.list.children)
      option.setAttribute("aria-selected", Number(option.dataset.number) === this.chosen);
    const chosen = this.list.children[this.chosen];
    if (chosen) this.text.setAttribute("aria-activedescendant", chosen.id);
    else this.text.removeAttribute("aria-activedescendant");
    chosen?.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    event.stopPropagation();
    if (!this.open) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      this.chosen = (this.chosen + step + this.list.children.length) % this.list.children.length;
      this.mark();
    } else if (event.key === "Tab" || event.key === "Enter") this.take(this.chosen);
    else if (event.key === "Escape") { this.shut = true; this.draw(); }
    else return;
    event.preventDefault();
  }

  take(number) {
    const { start, cursor, words } = this.fitting();
    if (words[number]) this.text.setRangeText(`${words[number][0]} `, start, cursor, "end");
    this.changed();
  }
}

function render({ model, el }) {
  const box = new Box(model, el);
  return () => box.end();
}

export default { render };

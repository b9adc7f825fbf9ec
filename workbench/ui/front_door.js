// Draws the regions that Python made, and sends back what was clicked or entered. It computes
// nothing: a region is replaced as a whole, so it always belongs to the newest scenario.
const REGIONS = ["style", "error", "omnibox", "understood", "bar", "actions", "answers", "views",
  "body", "inspector", "next", "labs"];
const OF_THE_PLAN = ["answers", "body", "inspector", "next"];
const SUGGESTED = 8, LONGEST_NAME = 60, COPIED_MS = 1500;

// Letters of `text` in order, hits at the start first.
const matches = (text, name) => {
  let at = 0;
  for (const letter of text) {
    at = name.indexOf(letter, at) + 1;
    if (!at) return false;
  }
  return true;
};

class Door {
  constructor(model, el) {
    Object.assign(this, { model, drawn: {}, places: {}, next: null, chosen: -1 });
    this.root = document.createElement("div");
    this.root.className = "wb wb-door";
    this.live = document.createElement("div");
    this.live.className = "wb-unseen";
    this.live.setAttribute("role", "status");
    for (const name of REGIONS) {
      this.places[name] = document.createElement("div");
      this.places[name].dataset.region = name;
    }
    this.root.append(this.live, ...Object.values(this.places));
    const on = (type, act) => this.root.addEventListener(type, act);
    on("click", (event) => this.click(event));
    on("change", (event) => this.change(event.target));
    on("input", (event) => this.input(event.target));
    on("keydown", (event) => this.key(event));
    on("paste", (event) => this.paste(event.target));
    on("pointerover", (event) => this.inspect(event.target));
    on("focusin", (event) => this.focus(event.target));
    this.listen = () => this.draw();
    model.on("change:regions change:stale", this.listen);
    el.append(this.root);
    this.draw();
  }

  end() { this.model.off("change:regions change:stale", this.listen); }

  send(act, arg = "", text = "") { this.model.send({ do: act, arg, text }); }

  find(key) {
    const found = [...this.root.querySelectorAll("[data-key]")];
    return found.find((one) => one.dataset.key === key);
  }

  draw() {
    const regions = this.model.get("regions");
    const focused = this.root.contains(document.activeElement) && document.activeElement.dataset.key;
    const key = this.next ?? focused;
    const search = this.find("search")?.value ?? "";
    for (const name of REGIONS) {
      const html = regions[name] ?? "";
      if (this.drawn[name] === html) continue;
      this.drawn[name] = html;
      this.places[name].innerHTML = html;
    }
    if (search && this.find("search")) this.filter(search);
    for (const one of this.root.querySelectorAll("li[data-part], li[data-step]")) one.tabIndex = 0;
    const plan = this.model.get("plan");
    this.root.dataset.plan = plan;
    for (const one of this.root.querySelectorAll("[data-plan]"))
      one.classList.toggle("wb-stale", one.dataset.plan !== plan);
    for (const name of OF_THE_PLAN)
      this.places[name].classList.toggle("wb-stale", this.model.get("stale"));
    this.live.textContent = this.model.get("announced");
    if (key) this.find(key)?.focus({ preventScroll: true });
    this.next = null;
  }

  submit() {
    this.close();
    this.submitted = this.find("omnibox").value;
    this.send("submit", this.submitted, this.find("log-model")?.value ?? "");
  }

  async click(event) {
    const one = event.target.closest("[data-do]");
    if (!one && !event.target.closest("[data-chip]") && this.root.querySelector(".wb-pop"))
      this.send("open");
    if (!one || one.tagName !== "BUTTON") return this.pick(event.target.closest("[role=option]"));
    const { do: act, arg } = one.dataset;
    if (act === "submit") this.submit();
    else if (act === "copy") await this.copy(one);
    else if (act === "open") this.open(arg);
    else this.send(act, arg);
  }

  // What opens takes the keyboard.
  open(field) {
    if (field) this.next = field === "all" ? "search" : `chip-${field}`;
    this.send("open", field);
  }

  async copy(button) {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      button.textContent = "No access to the clipboard: see Copy below";
      this.send("view", "copy");
    }
    setTimeout(() => { button.textContent = label; }, COPIED_MS);
  }

  change(one) {
    const { do: act, arg } = one.dataset;
    if (act === "goal") this.send(act, one.value);
    if (act !== "set") return;
    if (one.dataset.key.startsWith("chip-")) this.next = `open-${arg}`;
    this.send(act, arg, one.value);
  }

  input(one) {
    if (one.dataset.filter !== undefined) this.filter(one.value);
    if (one.dataset.key === "omnibox") this.suggest(one);
  }

  filter(text) {
    const box = this.find("search");
    if (box.value !== text) box.value = text;
    const words = text.toLowerCase();
    for (const field of box.parentElement.querySelectorAll(".wb-field"))
      field.hidden = !field.dataset.words.includes(words);
  }

  list() { return this.places.omnibox.querySelector("[role=listbox]"); }

  close() {
    this.chosen = -1;
    this.list().hidden = true;
    this.find("omnibox").setAttribute("aria-expanded", "false");
  }

  suggest(box) {
    box.rows = Math.min(box.value.split("\n").length, 8);
    const text = box.value.trim().toLowerCase();
    this.close();
    if (!text || text.length > LONGEST_NAME || /\s/.test(text)) return;
    const found = JSON.parse(box.dataset.models).filter((name) => matches(text, name.toLowerCase()));
    found.sort((a, b) => b.toLowerCase().includes(text) - a.toLowerCase().includes(text));
    this.list().replaceChildren(...found.slice(0, SUGGESTED).map((name) => {
      const one = document.createElement("div");
      one.setAttribute("role", "option");
      one.textContent = name;
      return one;
    }));
    this.list().hidden = !found.length;
    box.setAttribute("aria-expanded", String(found.length > 0));
  }

  pick(option) {
    if (!option) return;
    this.find("omnibox").value = option.textContent;
    this.submit();
  }

  key(event) {
    if (event.key === "Escape") {
      const chip = event.target.closest("[data-chip]");
      if (chip?.querySelector(".wb-pop")) {
        this.next = `open-${chip.dataset.chip}`;
        this.send("open");
      }
      this.close();
    }
    if (event.target.dataset.key === "log-model" && event.key === "Enter") this.submit();
    if (event.target.dataset.key !== "omnibox") return;
    const options = this.list().hidden ? [] : [...this.list().children];
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move && options.length) {
      event.preventDefault();
      this.chosen = (this.chosen + move + options.length) % options.length;
      options.forEach((one, at) => one.setAttribute("aria-selected", String(at === this.chosen)));
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      if (this.chosen >= 0) this.pick(options[this.chosen]);
      else this.submit();
    }
  }

  // What is pasted in place of nothing, or of what is shown already, is shown at once.
  paste(box) {
    const isNew = !box.value || box.value === this.submitted;
    if (box.dataset.key === "omnibox" && isNew) setTimeout(() => this.submit());
  }

  focus(target) {
    if (target.dataset.key === "omnibox" && target.value === this.submitted) target.select();
    this.inspect(target);
  }

  inspect(target) {
    const one = target.closest?.("[data-part], [data-step]");
    if (!one) return;
    const { part, step, parts } = one.dataset;
    const about = step ? `step-${step}` : `part-${part}`;
    const marked = step ? parts.split(" ") : [part];
    for (const section of this.places.inspector.querySelectorAll("[data-about]"))
      section.hidden = section.dataset.about !== about;
    for (const other of this.places.body.querySelectorAll("[data-part], [data-step]")) {
      const { part: own, parts: its } = other.dataset;
      const lit = own ? marked.includes(own) : (its ?? "").split(" ").some((x) => marked.includes(x));
      other.classList.toggle("wb-lit", other === one || lit);
    }
  }
}

// JupyterLab's command mode would take the keys away from a focused control, also of a lab.
const keepKeys = ({ target }) => { target.dataset.lmSuppressShortcuts = "true"; };

export default {
  render({ model, el }) {
    const door = new Door(model, el);
    el.addEventListener("focusin", keepKeys);
    requestAnimationFrame(() => el.closest(".wb-panel")?.addEventListener("focusin", keepKeys));
    return () => door.end();
  },
};

// Draws the regions that Python made, and sends back what was clicked or entered. It computes
// nothing: a region is replaced as a whole, so it always belongs to the newest scenario.
const REGIONS = ["style", "error", "omnibox", "understood", "bar", "actions", "answers", "views",
  "body", "tried", "inspector", "next", "labs"];
const OF_THE_PLAN = ["answers", "body", "tried", "inspector", "next"];
const SUGGESTED = 8, LONGEST_NAME = 60, MOST_ROWS = 8, LINK = "#scenario=";
const COPIED_MS = 1500, BUSY_MS = 300, REVEALED_MS = 10_000, KEPT_MS = 1500;
const SCREEN = ".jp-NotebookPanel-notebook", ACTIVE_CELL = ".jp-Cell.jp-mod-active", MARGIN = 12;
const NARROW_PIXELS = 720, LEAST_ROOM = 130, LEAST_SAID = 170;
const EVENTS = ["change:regions", "change:plan", "change:stale"];
const ROWS = "[role=toolbar], [role=tablist]";
const MOVES = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
const RELEASES = ["pointerup", "pointercancel", "dragend"];
let doors = 0;

// Letters of `text` in order, hits at the start first.
const matches = (text, name) => {
  let at = 0;
  for (const letter of text) {
    at = name.indexOf(letter, at) + 1;
    if (!at) return false;
  }
  return true;
};

const where = ({ clientX, clientY }) => `${Math.round(clientX)} ${Math.round(clientY)}`;

class Door {
  constructor(model, el) {
    Object.assign(this, { model, drawn: {}, places: {}, next: null, step: null, chosen: -1 });
    Object.assign(this, { unanswered: 0, reports: false, stops: {} });
    this.id = `wb-door-${doors += 1}`;
    this.root = document.createElement("div");
    this.root.className = "wb wb-door";
    this.live = document.createElement("div");
    this.live.className = "wb-unseen";
    this.live.setAttribute("role", "status");
    for (const name of REGIONS) {
      this.places[name] = document.createElement("div");
      this.places[name].dataset.region = name;
    }
    // It may scroll, so the keyboard has to reach it.
    const panel = { role: "tabpanel", tabindex: 0, "aria-label": "Explanation" };
    for (const [name, value] of Object.entries(panel)) this.places.body.setAttribute(name, value);
    const lost = document.createElement("p");
    lost.className = "wb-lost";
    lost.setAttribute("role", "alert");
    lost.textContent = "The kernel has restarted. Run this cell again.";
    this.root.append(this.live, lost, ...Object.values(this.places));
    const on = (type, act) => this.root.addEventListener(type, act);
    on("click", (event) => this.click(event));
    on("change", (event) => this.change(event.target));
    on("input", (event) => this.input(event.target));
    on("keydown", (event) => this.key(event));
    on("paste", (event) => this.paste(event.target));
    on("pointerover", (event) => this.hover(event));
    on("pointermove", (event) => { this.pointer = where(event); });
    on("focusin", (event) => this.focus(event.target));
    on("focusout", (event) => this.leave(event.target));
    // A button that is replaced between press and release gets no click: draw after the release.
    on("pointerdown", (event) => { this.pressed = Boolean(event.target.closest("button")); });
    this.release = () => setTimeout(() => {
      this.pressed = false;
      if (this.waits) this.draw();
    });
    for (const type of RELEASES) window.addEventListener(type, this.release);
    // Once for all values of a message: marimo sets them one by one, and reads no list of events.
    this.listen = () => {
      if (!this.waits && !this.pressed) queueMicrotask(() => { if (!this.pressed) this.draw(); });
      this.waits = true;
    };
    for (const event of EVENTS) model.on(event, this.listen);
    el.append(this.root);
    this.draw();
    this.observer = new ResizeObserver(() => {
      this.narrow();
      this.fit();
      this.arrive();
    });
    for (const [name, place] of Object.entries(this.places))
      if (name !== "body" && name !== "inspector") this.observer.observe(place);
    this.resized = () => {
      this.fit();
      this.keepInside();
    };
    window.addEventListener("resize", this.resized);
    // What a chip opened closes with a click beyond the door, too: a phone has no Escape key. A
    // second view shows the same, and marimo shows the door in a shadow root: so the whole path.
    this.beyond = (event) => {
      const isInside = event.composedPath().some((one) => one.classList?.contains("wb-door"));
      if (!isInside && this.root.querySelector(".wb-pop")) this.send("open");
    };
    document.addEventListener("click", this.beyond);
  }

  // A cell between sidebars is as narrow as a phone, in a window that is not. A frame later, as
  // sizes that change while they are observed are an error of the page.
  narrow() {
    const { clientWidth: width, classList } = this.root, is = width <= NARROW_PIXELS;
    if (!width || is === classList.contains("wb-narrow")) return;
    requestAnimationFrame(() => {
      classList.toggle("wb-narrow", is);
      this.resized();
    });
  }

  // What the other regions leave of a screen is the room of the explanation, which may scroll. A
  // log's box gives what is missing, and scrolls, too: its fatal line and the fixes come first.
  fit() {
    const { understood, body, next, labs } = this.places;
    const top = (one) => one.getBoundingClientRect().top;
    // An app has a heading above the door; a notebook is scrolled to the door.
    const screen = this.root.closest(SCREEN)?.clientHeight
      ?? window.innerHeight - Math.max(0, top(this.root));
    const { scrollHeight: whole, clientHeight: shown } = understood;
    const others = top(body) - top(this.root) + top(labs) - top(next) + whole - shown;
    const room = screen - others - MARGIN, said = whole - Math.max(0, LEAST_ROOM - room);
    this.root.style.setProperty("--wb-room", `${room}px`);
    this.root.style.setProperty("--wb-said", `${Math.max(LEAST_SAID, said)}px`);
  }

  // The door of the cell that was just run fills the screen, unless all of it is in view. Where
  // another cell is the active one, a person looks at that.
  arrive() {
    if (!this.model.get("arrives")) return;
    this.model.set("arrives", false);
    this.model.save_changes();
    const screen = this.root.closest(SCREEN), { bottom } = this.places.next.getBoundingClientRect();
    if (this.root.closest(ACTIVE_CELL) && bottom > screen?.getBoundingClientRect().bottom)
      this.root.scrollIntoView({ block: "start" });
  }

  // A lab comes below the door, and grows: follow until a person does something else.
  reveal() {
    this.revealed?.abort();
    const ended = this.revealed = new AbortController();
    const grown = new ResizeObserver(() => this.places.labs.scrollIntoView({ block: "start" }));
    grown.observe(this.root.closest(".wb-panel") ?? this.root);
    ended.signal.addEventListener("abort", () => grown.disconnect());
    setTimeout(() => ended.abort(), REVEALED_MS);
    for (const type of ["wheel", "pointerdown", "keydown"])
      window.addEventListener(type, () => ended.abort(), { capture: true, signal: ended.signal });
  }

  // What a chip opens stays inside, wherever the chip has wrapped to.
  keepInside() {
    const room = this.root.getBoundingClientRect();
    for (const pop of this.root.querySelectorAll(".wb-pop")) {
      pop.style.translate = "";
      if (getComputedStyle(pop).position === "fixed") continue; // a sheet, as wide as the window
      const at = pop.getBoundingClientRect();
      pop.style.translate = `${Math.max(room.left - at.left, 0) || Math.min(room.right - at.right, 0)}px`;
    }
  }

  end() {
    clearTimeout(this.waiting);
    clearTimeout(this.keeping);
    this.observer.disconnect();
    this.revealed?.abort();
    window.removeEventListener("resize", this.resized);
    document.removeEventListener("click", this.beyond);
    for (const event of EVENTS) this.model.off(event, this.listen);
    for (const type of RELEASES) window.removeEventListener(type, this.release);
  }

  // Jupyter's server holds a small packet until the one before is acknowledged, which browsers do
  // after 40 ms or with the next thing they send: so the kernel's "busy" is answered at once.
  send(act, arg = "", text = "") {
    const status = ({ content }) => {
      if (content.execution_state === "busy") this.model.send({ do: "heard" });
      if (content.execution_state === "idle") this.wait(-1);
    };
    this.wait(1);
    // a function, as marimo calls what Jupyter reads callbacks from
    this.model.send({ do: act, arg, text }, Object.assign(() => {}, { iopub: { status } }));
  }

  // A sign after a while: most answers come before it. Only where the end of an answer is reported.
  wait(more) {
    this.unanswered = Math.max(0, this.unanswered + more);
    this.reports ||= more < 0;
    clearTimeout(this.waiting);
    if (!this.unanswered) this.busy(false);
    else if (this.reports) this.waiting = setTimeout(() => this.busy(true), BUSY_MS);
  }

  busy(is) {
    this.root.classList.toggle("wb-busy", is);
    this.root.setAttribute("aria-busy", String(is));
  }

  find(key) {
    const found = [...this.root.querySelectorAll("[data-key]")];
    return found.find((one) => one.dataset.key === key);
  }

  draw() {
    this.waits = false;
    const regions = this.model.get("regions");
    const focused = this.root.contains(document.activeElement) && document.activeElement.dataset.key;
    const spot = this.spot();
    const search = this.find("search")?.value ?? "";
    for (const name of REGIONS) {
      const html = regions[name] ?? "";
      if (this.drawn[name] === html) continue;
      this.drawn[name] = html;
      const unfolded = this.unfolded(name), slid = this.slid(name);
      this.places[name].innerHTML = html;
      for (const row of this.rows(name)) {
        row.scrollLeft = slid.get(row.ariaLabel) ?? 0;
        this.slide(row);
      }
      for (const one of this.folds(name)) one.open ||= unfolded.has(one.firstChild.textContent);
    }
    for (const link of this.root.querySelectorAll(".wb-learn a")) this.opened(link);
    this.root.querySelector("[data-slot=tried]")?.append(this.places.tried);
    if (search && this.find("search")) this.filter(search);
    this.keepInside();
    for (const one of this.root.querySelectorAll("li[data-part], [data-step]")) one.tabIndex = 0;
    this.name();
    for (const row of this.root.querySelectorAll(ROWS)) this.rove(row);
    const plan = this.model.get("plan");
    this.root.dataset.plan = plan;
    for (const one of this.root.querySelectorAll("[data-plan]"))
      one.classList.toggle("wb-stale", one.dataset.plan !== plan);
    for (const name of OF_THE_PLAN)
      this.places[name].classList.toggle("wb-stale", this.model.get("stale"));
    // an answer is announced once, and does not replace the matches of a word in the omnibox
    const announced = this.model.get("announced");
    if (this.list().hidden && announced !== this.announced)
      this.live.textContent = this.announced = announced;
    // what comes of something else is drawn before the control is there
    const next = [this.next ?? []].flat().map((one) => this.find(one)).find(Boolean);
    (next ?? this.find(focused))?.focus({ preventScroll: true });
    if (next) {
      this.next = null;
      next.select?.(); // what is written replaces what was there
    }
    if (spot && !this.root.contains(document.activeElement)) this.near(...spot);
    if (this.step) this.show(this.step);
    this.keep();
    this.address();
  }

  // The page of an app is all the door's: what is shown is in its address, and outlives a reload.
  address() {
    const link = this.places.actions.querySelector(`[data-copy^="${LINK}"]`)?.dataset.copy;
    if (!this.model.get("addressed") || !link || link === this.link) return;
    const isFirst = this.link === undefined; // a link that was opened is read after it
    this.link = link;
    if (isFirst) return;
    try {
      history.replaceState(null, "", link);
    } catch {
      // longer than an address may be, or too many changes in a moment: the newest one counts
    }
  }

  // The picture that a notebook keeps is of what is shown when nothing has changed for a while.
  keep() {
    const shown = this.model.get("keeps") && this.drawn.bar + this.drawn.answers;
    if (!shown || shown === this.kept) return;
    const isFirst = this.kept === undefined; // Python has just made one of it
    this.kept = shown;
    clearTimeout(this.keeping);
    if (isFirst) return;
    this.keeping = setTimeout(() => {
      // a kernel that has ended keeps nothing
      if (!this.root.closest(".jupyter-widgets-disconnected")) this.model.send({ do: "keep" });
    }, KEPT_MS);
  }

  // JupyterLab opens a notebook next to this one; its address is relative to this one's.
  async opened(link) {
    const { resolver, linkHandler } = this.model.get("layout")?.widget_manager?.rendermime ?? {};
    if (!linkHandler || this.opens === link) return;
    this.opens = link;
    const path = await resolver.resolveUrl(link.getAttribute("href"));
    linkHandler.handleLink(link, decodeURIComponent(path), "");
  }

  // Where the focus is: the region, and how many of its buttons come before.
  spot() {
    const one = document.activeElement, region = one?.closest("[data-region]")?.dataset.region;
    return region && this.root.contains(one) && [region, this.clickable(region).indexOf(one)];
  }

  // What a click took away, or disabled, leaves the focus to the button in its place.
  near(region, at) {
    const all = this.clickable(region), from = Math.max(at, 0);
    const inOrder = [...all.slice(from), ...all.slice(0, from).reverse()];
    (inOrder.find((one) => !one.disabled) ?? this.find("omnibox")).focus({ preventScroll: true });
  }

  clickable(region) {
    return [...this.places[region].querySelectorAll("button")];
  }

  // The Tab key enters a row of buttons once: where it was left, or at what is selected.
  rove(row) {
    const buttons = this.buttons(row), last = this.stops[row.ariaLabel];
    const stop = buttons.find((one) => one.dataset.key === last)
      ?? buttons.find((one) => one.ariaSelected === "true") ?? buttons[0];
    for (const one of buttons) one.tabIndex = one === stop ? 0 : -1;
  }

  buttons(row) {
    return [...row?.querySelectorAll("button:enabled") ?? []].filter((one) => !one.closest(".wb-pop"));
  }

  move(event) {
    const buttons = this.buttons(event.target.closest(ROWS)), at = buttons.indexOf(event.target);
    const move = MOVES[event.key];
    if (at < 0 || !move) return;
    event.preventDefault();
    buttons[Math.min(Math.max(at + move, 0), buttons.length - 1)].focus();
  }

  rows(name) { return [...this.places[name].querySelectorAll(ROWS)]; }

  // How far the rows of buttons have been slid on a narrow screen.
  slid(name) { return new Map(this.rows(name).map((row) => [row.ariaLabel, row.scrollLeft])); }

  // What a text or an answer has opened is in view in a row that is slid, too.
  slide(row) {
    const open = row.querySelector("[aria-selected=true], [aria-expanded=true]");
    const [room, at] = [row, open ?? row].map((one) => one.getBoundingClientRect());
    row.scrollLeft += Math.max(at.right - room.right, 0) || Math.min(at.left - room.left, 0);
  }

  folds(name) { return [...this.places[name].querySelectorAll("details")]; }

  unfolded(name) {
    return new Set(this.folds(name).filter((one) => one.open).map((one) => one.firstChild.textContent));
  }

  // A combobox and its list know each other by a name that no other door has.
  name() {
    this.list().id = `${this.id}-models`;
    this.find("omnibox").setAttribute("aria-controls", this.list().id);
    for (const box of this.root.querySelectorAll(".wb-field")) {
      const [control, help] = [box.querySelector("[data-key]"), box.querySelector("small")];
      help.id = `${this.id}-${control.dataset.key}`;
      control.setAttribute("aria-describedby", help.id);
    }
  }

  // Unfolds a step in the list of all steps; in another view the list is drawn first.
  show(step) {
    const rows = [...this.places.body.querySelectorAll(`details [data-step="${step}"]`)];
    this.step = rows.length ? null : step;
    if (!rows.length) return this.send("view", "why");
    rows[0].closest("details").open = true;
    rows[0].focus();
  }

  submit() {
    this.close();
    const box = this.find("omnibox");
    this.submitted = box.value;
    box.rows = 1; // the answer is what is looked at now
    box.scrollTo(0, 0);
    this.send("submit", this.submitted, this.find("log-model")?.value ?? "");
  }

  // What is drawn below a pointer that rests is "entered", too: only one that moved inspects.
  hover(event) {
    if (where(event) !== this.pointer) this.inspect(event.target);
  }

  // A part of the picture that is pressed gives the focus to its words, which explain it.
  touch(part) {
    const words = part && this.places.body.querySelector(`li[data-part="${part.dataset.part}"]`);
    words?.focus({ preventScroll: true });
  }

  async click(event) {
    const one = event.target.closest("[data-do]");
    this.touch(event.target.closest("rect[data-part]"));
    if (!event.target.closest("[data-chip]") && this.root.querySelector(".wb-pop"))
      this.send("open");
    if (!one || one.tagName !== "BUTTON") return this.pick(event.target.closest("[role=option]"));
    this.next = null;
    const { do: act, arg } = one.dataset;
    if (act === "submit") this.submit();
    else if (act === "copy") await this.copy(one);
    else if (act === "open") this.open(arg);
    else if (act === "step") this.show(arg);
    else {
      if (act === "show_lab" || (act === "lab" && one.ariaExpanded !== "true")) this.reveal();
      if (act === "goal") this.next = "next-0"; // the cards answer: go to the first
      if (act === "ask") this.find("omnibox").value = this.submitted = arg;
      if (act === "reset") this.find("omnibox").value = this.submitted = "";
      this.send(act, arg);
    }
  }

  // What opens takes the keyboard, and gives it back.
  open(field) {
    this.opener = document.activeElement?.dataset.key;
    if (field) this.next = { all: "search", history: "open-history" }[field] ?? `chip-${field}`;
    this.send("open", field);
  }

  async copy(button) {
    const label = button.textContent;
    try {
      const { copy } = button.dataset;
      const page = copy.startsWith(LINK) ? location.origin + location.pathname : "";
      await navigator.clipboard.writeText(page + copy);
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
    if (act !== "set" && act !== "length") return;
    this.moved = this.keyed && one.tagName === "SELECT" ? one : null;
    if (this.moved) return;
    const chip = one.closest("[data-chip]")?.dataset.chip;
    // a chip with several controls stays open, and keeps the keyboard
    if (one.dataset.key.startsWith("chip-")) this.next = [one.dataset.key, `open-${chip}`];
    this.send(act, arg, one.value);
  }

  // A list changes with every letter and arrow: what it is left with counts, as of a text.
  keys(event) {
    if (event.key === "Escape") this.moved = null;
    if (event.key === "Enter" && this.moved) {
      event.preventDefault();
      this.leave(event.target);
    }
    this.keyed = true;
    setTimeout(() => { this.keyed = false; });
  }

  leave(one) {
    if (one !== this.moved) return;
    this.keyed = false;
    this.change(one);
  }

  input(one) {
    if (one.dataset.filter !== undefined) this.filter(one.value);
    if (one.dataset.do === "try") this.send("try", "", one.value);
    if (one.dataset.key === "omnibox") this.suggest(one);
  }

  filter(text) {
    const box = this.find("search");
    if (box.value !== text) box.value = text;
    const words = text.toLowerCase();
    for (const field of box.parentElement.querySelectorAll(".wb-field"))
      field.hidden = !field.dataset.words.includes(words);
    for (const group of box.parentElement.querySelectorAll("fieldset"))
      group.hidden = !group.querySelector(".wb-field:not([hidden])");
  }

  list() { return this.places.omnibox.querySelector("[role=listbox]"); }

  close() {
    this.chosen = -1;
    this.list().hidden = true;
    this.find("omnibox").removeAttribute("aria-activedescendant");
  }

  size(box) { box.rows = Math.min(box.value.split("\n").length, MOST_ROWS); }

  suggest(box) {
    this.size(box);
    const text = box.value.trim().toLowerCase();
    this.close();
    if (!text || text.length > LONGEST_NAME || /\s/.test(text)) return;
    const found = JSON.parse(box.dataset.models).filter((name) => matches(text, name.toLowerCase()));
    found.sort((a, b) => b.toLowerCase().includes(text) - a.toLowerCase().includes(text));
    this.list().replaceChildren(...found.slice(0, SUGGESTED).map((name, at) => {
      const one = document.createElement("div");
      one.id = `${this.list().id}-${at}`;
      one.setAttribute("role", "option");
      one.textContent = name;
      return one;
    }));
    this.list().hidden = !found.length;
    if (!found.length) return;
    const words = found.length === 1 ? "1 model matches" : `${found.length} models match`;
    this.live.textContent = `${words}; arrow keys choose one.`;
    this.announced = null;
  }

  pick(option) {
    if (!option) return;
    this.find("omnibox").value = option.textContent;
    this.submit();
  }

  key(event) {
    if (event.target.tagName === "SELECT") this.keys(event);
    if (event.key === "Escape") {
      const chip = event.target.closest("[data-chip]");
      if (chip?.querySelector(".wb-pop")) {
        this.next = [`open-${chip.dataset.chip}`, this.opener];
        this.send("open");
      }
      this.close();
    }
    if (event.target.dataset.key === "log-model" && event.key === "Enter") this.submit();
    // Enter means "this one" also where the text is the one that was there.
    if (event.key === "Enter" && event.target.matches("input[type=text][data-do]")) {
      event.preventDefault();
      this.change(event.target);
    }
    this.move(event);
    if (event.target.dataset.key !== "omnibox") return;
    const options = this.list().hidden ? [] : [...this.list().children];
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move && options.length) {
      event.preventDefault();
      this.chosen = (this.chosen + move + options.length) % options.length;
      options.forEach((one, at) => one.setAttribute("aria-selected", String(at === this.chosen)));
      event.target.setAttribute("aria-activedescendant", options[this.chosen].id);
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
    const row = target.closest(ROWS);
    if (this.buttons(row).includes(target)) {
      this.stops[row.ariaLabel] = target.dataset.key;
      this.rove(row);
    }
    if (target.dataset.key === "omnibox") this.size(target);
    if (target.dataset.key === "omnibox" && target.value === this.submitted) target.select();
    this.inspect(target);
  }

  inspect(target) {
    const one = target.closest?.("[data-part], [data-step]");
    if (!one || one.closest(".wb-other")) return;
    const { part, step } = one.dataset;
    const about = step ? `step-${step}` : `part-${part}`;
    const shown = this.places.body.querySelector(`li[data-step="${step}"]`) ?? one;
    const marked = step ? (shown.dataset.parts ?? "").split(" ") : [part];
    for (const section of this.places.inspector.querySelectorAll("[data-about]"))
      section.hidden = section.dataset.about !== about;
    for (const other of this.places.body.querySelectorAll("[data-part], [data-step]")) {
      const { part: own, parts: its } = other.dataset;
      const is = own ? marked.includes(own) : (its ?? "").split(" ").some((x) => marked.includes(x));
      const lit = step && other.dataset.step ? other.dataset.step === step : is;
      other.classList.toggle("wb-lit", lit && !other.closest(".wb-other"));
    }
  }
}

// JupyterLab's command mode would take the keys away from a focused control, also of a lab.
const keepKeys = ({ target }) => { target.dataset.lmSuppressShortcuts = "true"; };

export default {
  render({ model, el }) {
    const door = new Door(model, el);
    if (location.hash.startsWith(LINK)) {
      door.send("submit", location.hash);
      history.replaceState(null, "", location.pathname + location.search);
    }
    el.addEventListener("focusin", keepKeys);
    requestAnimationFrame(() => el.closest(".wb-panel")?.addEventListener("focusin", keepKeys));
    return () => door.end();
  },
};

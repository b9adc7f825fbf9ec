// Draws the figure that a state model holds, and draws it again whenever that changes.
//
// anywidget stops listening to Python for good when a script takes more than two seconds to load.
// So this script is small, plotly's five megabytes come as the state of a plain widget model, once
// per page, and the figure is the state of a plain model too: those never stop listening.
const FIRST_WAIT_MS = 500, LAST_WAIT_MS = 8000, CURSOR_MS = 60;
// With fewer pixels the labels of a figure run into each other: it stays as wide, and slides.
const LEAST_PIXELS = 560, LETTER_PIXELS = 7, GAP_PIXELS = 4, MARGIN_PIXELS = 80;
const WAITING = "The picture has not arrived yet; it is being requested again.";
const SLIDES = "The picture is wider than this place: slide it sideways to see the rest.";

const modelOf = (model, name) =>
  model.widget_manager.get_model(model.get(name).replace(/^IPY_MODEL_/, ""));

// Columns of cells need the longest text in one of them.
const leastWidth = (data, { margin = {} }) => {
  const sides = (margin.l ?? MARGIN_PIXELS) + (margin.r ?? MARGIN_PIXELS);
  const written = data.filter(({ text, texttemplate }) => texttemplate && Array.isArray(text?.[0]));
  const columns = written.map(({ text }) => {
    const longest = Math.max(...text.flat().map((one) => one.length));
    return sides + text[0].length * (longest * LETTER_PIXELS + GAP_PIXELS);
  });
  return Math.max(LEAST_PIXELS, ...columns);
};

async function unpack(packed) {
  const unzipped = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const text = await new Response(unzipped).text();
  const source = `const module = { exports: {} };\n${text}\nexport default module.exports;`;
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  try {
    return (await import(url)).default;
  } finally {
    URL.revokeObjectURL(url);
  }
}

// All figures of a page share one plotly, also those of other panels and kernels.
async function plotlyOf(model) {
  const script = await modelOf(model, "script");
  const place = Symbol.for(`hybrid-kv-workbench plotly ${script.get("version")}`);
  globalThis[place] ??= unpack(script.get("packed"));
  try {
    return await globalThis[place];
  } catch (error) {
    delete globalThis[place];
    throw error;
  }
}

const COLUMNS = ["name", "type", "x", "y", "z", "base", "text", "customdata", "dimensions"];

const wordsOf = (part) => (part?.title?.text ?? "").replace(/<[^>]*>/g, "");

// A file that reads by itself: what is drawn, what both axes are, and the numbers.
function saveData(plot) {
  const { _fullData, data, layout } = plot;
  const columns = (trace) => COLUMNS.filter((name) => name in trace)
    .filter((name) => name !== "name" || data[trace.index]?.name).map((name) => [name, trace[name]]);
  const title = wordsOf(layout);
  const saved = { title, x: wordsOf(layout.xaxis), y: wordsOf(layout.yaxis),
    traces: _fullData.map((trace) => Object.fromEntries(columns(trace))) };
  const plain = (_name, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(saved, plain)], { type: "application/json" }));
  link.download = `${title.toLowerCase().match(/\w+/g)?.slice(0, 6).join("-") ?? "data"}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href));
}

class Drawing {
  constructor({ model, el }) {
    Object.assign(this, { model, el, drawn: null, width: 0, busy: false, ended: false });
    this.plot = document.createElement("div");
    this.note = document.createElement("div");
    this.note.className = "wb-figure-note";
    el.append(this.note, this.plot);
  }

  async start() {
    for (let wait = FIRST_WAIT_MS; !this.ended; wait = Math.min(2 * wait, LAST_WAIT_MS)) {
      try {
        const both = await Promise.all([plotlyOf(this.model), modelOf(this.model, "state")]);
        if (!this.ended) this.begin(...both);
        return;
      } catch (error) {
        console.warn(WAITING, error);
        this.note.textContent = WAITING;
        await new Promise((done) => setTimeout(done, wait));
      }
    }
  }

  begin(plotly, state) {
    Object.assign(this, { plotly, state });
    this.note.textContent = "";
    this.changed = () => this.refresh();
    state.on("change:revision", this.changed);
    this.observer = new ResizeObserver(this.changed);
    this.observer.observe(this.el);
    this.refresh();
  }

  // One drawing at a time, and always the newest; nothing while the figure is hidden.
  async refresh() {
    if (this.busy) return;
    this.busy = true;
    try {
      while (!this.ended && this.el.clientWidth && this.state.get("figure")) {
        if (this.drawn !== this.state.get("revision")) await this.draw();
        else if (this.width !== this.el.clientWidth) await this.fit();
        else break;
      }
    } finally {
      this.busy = false;
    }
  }

  async draw() {
    const revision = this.state.get("revision");
    this.drawn = revision;
    this.width = this.el.clientWidth;
    try {
      const { data, layout } = JSON.parse(this.state.get("figure"));
      this.least = leastWidth(data, layout);
      this.slide();
      const config = { ...this.state.get("config") };
      config.modeBarButtons = [this.buttons(config.doubleClick !== false)];
      await this.plotly.react(this.plot, data, layout, config);
      if (!this.listening) this.listen();
      this.el.setAttribute("aria-label", layout.title?.text?.replace(/<[^>]*>/g, " ") ?? "Figure");
    } catch (error) {
      console.error(error);
      this.note.textContent = `The picture could not be drawn: ${error.message ?? error}`;
    }
    this.el.dataset.revision = revision;
  }

  // PNG, SVG, data and reset: nothing that leads elsewhere.
  buttons(resets) {
    const { Icons, downloadImage } = this.plotly;
    const svg = {
      name: "svg",
      title: "Download plot as SVG",
      icon: Icons["camera-retro"],
      click: (plot) => downloadImage(plot, { format: "svg" }),
    };
    const data = { name: "data", title: "Download data as JSON", icon: Icons.disk, click: saveData };
    return ["toImage", svg, data, ...(resets ? ["resetScale2d"] : [])];
  }

  async fit() {
    this.width = this.el.clientWidth;
    this.slide();
    await this.plotly.Plots.resize(this.plot);
  }

  // A figure that is wider than its place says so, and is reached by keyboard, too.
  slide() {
    const slides = this.least > this.width;
    this.plot.style.minWidth = `${this.least}px`;
    this.note.textContent = slides ? SLIDES : "";
    if (slides) this.el.tabIndex = 0;
    else this.el.removeAttribute("tabindex");
  }

  listen() {
    this.listening = true;
    this.plot.on("plotly_click", ({ event, points: [{ curveNumber: trace, pointNumber: point }] }) =>
      this.model.send({ event: "click", trace, point, at: this.under(event) }),
    );
    if (this.state.get("reads_cursor")) this.plot.addEventListener("mousemove", (event) => this.move(event));
    this.plot.on("plotly_relayout", (changed) => {
      const range = [changed["xaxis.range[0]"], changed["xaxis.range[1]"]];
      if (range.every(Number.isFinite)) this.model.send({ event: "zoom", range });
    });
  }

  // What the axes read under the cursor; null next to them.
  under({ clientX, clientY }) {
    const area = this.plot.querySelector(".nsewdrag")?.getBoundingClientRect();
    if (!area || clientX < area.left || clientX > area.right) return null;
    if (clientY < area.top || clientY > area.bottom) return null;
    const { xaxis, yaxis } = this.plot._fullLayout;
    return [xaxis.p2d(clientX - area.left), yaxis.p2d(clientY - area.top)];
  }

  move(event) {
    this.cursor = this.under(event);
    this.waiting ??= setTimeout(() => {
      this.waiting = null;
      if (this.cursor) this.model.send({ event: "move", at: this.cursor });
    }, CURSOR_MS);
  }

  end() {
    this.ended = true;
    clearTimeout(this.waiting);
    this.observer?.disconnect();
    this.state?.off("change:revision", this.changed);
    if (this.listening) this.plotly.purge(this.plot);
    this.el.replaceChildren();
  }
}

function render({ model, el }) {
  el.setAttribute("role", "figure");
  el.classList.add("wb-drawing");
  const drawing = new Drawing({ model, el });
  drawing.start();
  return () => drawing.end();
}

export default { render };

// What the tests need from inside JupyterLab. The server exposes the application as
// `window.jupyterapp`; everything here is called by lab.py through `window.inPage`.
(() => {
  const panel = () => window.jupyterapp.shell.currentWidget;
  const cells = () => panel().content.widgets.map((cell) => cell.model);
  const codeCells = () =>
    cells().filter((cell) => cell.type === "code" && cell.sharedModel.getSource().trim() !== "");
  const kernel = () => panel().sessionContext.session.kernel;
  const kernelErrors = [];

  const outputs = (cell) =>
    Array.from({ length: cell.outputs.length }, (_, i) => cell.outputs.get(i).toJSON());

  const plain = (value) => {
    // plotly keeps numpy columns as TypedArray objects, which would arrive as objects.
    if (ArrayBuffer.isView(value)) return Array.from(value);
    if (Array.isArray(value)) return value.map(plain);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(
      Object.entries(value)
        .filter(([key]) => !key.startsWith("_"))
        .map(([key, entry]) => [key, plain(entry)]),
    );
  };

  const drawn = (plot) => {
    if (!plot?._fullData) return null;
    // `data` may hold columns in base64; `_fullData` has the same columns decoded.
    const decoded = (trace, full) =>
      Object.fromEntries(
        Object.entries(trace).map(([key, entry]) => [key, entry?.bdata ? full[key] : entry]),
      );
    const full = (i) => plot._fullData.find((trace) => trace.index === i) ?? {};
    return {
      data: plain(plot.data.map((trace, i) => decoded(trace, full(i)))),
      layout: plain(plot.layout),
    };
  };

  window.inPage = {
    isOpen: (path) => window.jupyterapp?.shell?.currentWidget?.context?.path === path,

    // "Idle" on screen comes too early: cells run then are lost. Each of these steps is needed.
    async ready() {
      await window.jupyterapp.restored;
      await panel().context.ready;
      await panel().revealed;
      const session = panel().sessionContext;
      await session.ready;
      await kernel().info;
      await kernel().requestExecute({ code: "0", silent: true, store_history: false }).done;
      session.iopubMessage.connect((_, message) => {
        if (message.header.msg_type === "error") kernelErrors.push(message.content);
      });
    },

    runAll: () => window.jupyterapp.commands.execute("notebook:run-all-cells"),

    save: () => window.jupyterapp.commands.execute("docmanager:save"),

    sources: () => cells().map((cell) => cell.sharedModel.getSource()),

    pending: () =>
      codeCells().filter((cell) => !cell.executionCount || cell.executionState === "running").length,

    cellErrors: () =>
      codeCells().flatMap(outputs).filter((output) => output.output_type === "error"),

    kernelErrors: () => kernelErrors,

    // Runs code in the kernel of the notebook, but in none of its cells.
    async execute(code) {
      const result = { text: "", error: null };
      const future = kernel().requestExecute({ code, store_history: false, stop_on_error: false });
      future.onIOPub = ({ header, content }) => {
        if (header.msg_type === "stream") result.text += content.text;
        if (header.msg_type === "execute_result") result.text += content.data["text/plain"];
        if (header.msg_type === "error") result.error = content.traceback.join("\n");
      };
      await future.done;
      return result;
    },

    setTheme: (theme) => window.jupyterapp.commands.execute("apputils:change-theme", { theme }),

    hasTheme: (theme) =>
      document.body.dataset.jpThemeName === theme &&
      getComputedStyle(document.body).getPropertyValue("--jp-layout-color0") !== "" &&
      document.getElementById("jupyterlab-splash") === null,

    figure: (within) => drawn(document.querySelector(within)?.querySelector(".js-plotly-plot")),

    // Every figure drawn in a panel that can be seen, with the revision that it is drawn from.
    figures: (within) =>
      Array.from(document.querySelectorAll(`${within} .wb-drawing[data-revision]`))
        .filter((element) => element.clientWidth)
        .map((element) => ({
          revision: Number(element.dataset.revision),
          ...drawn(element.querySelector(".js-plotly-plot")),
        })),

    modeBarButtons: () =>
      Array.from(document.querySelectorAll(".modebar-btn"), ({ dataset }) => dataset.title),

    // JupyterLab lays its parts out one after the other, some time after the window's own event.
    fills(width) {
      const shown = window.jupyterapp?.shell?.currentWidget?.node;
      const right = shown ? shown.getBoundingClientRect().right : width;
      return innerWidth === width && width - right < 60;
    },

    contrast(element) {
      const rgba = (text) => {
        const [red, green, blue, alpha = 1] = text.match(/[\d.]+/g).map(Number);
        return { channels: [red, green, blue], alpha };
      };
      const luminance = ({ channels }) => {
        const [red, green, blue] = channels.map((channel) =>
          channel <= 10 ? channel / 3294 : ((channel / 255 + 0.055) / 1.055) ** 2.4,
        );
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
      };
      let backdrop = element;
      const background = () => rgba(getComputedStyle(backdrop).backgroundColor);
      while (background().alpha === 0 && backdrop.parentElement) backdrop = backdrop.parentElement;
      const pair = [rgba(getComputedStyle(element).color), background()].map(luminance);
      return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    },

    // Which elements end to the right of their panel, and which drawings leave space unused.
    misfits(panelCss, css) {
      const panel = document.querySelector(panelCss);
      const right = (element) => element.getBoundingClientRect().right;
      return Array.from(panel.querySelectorAll(css))
        .filter((element) => {
          const unused = element.matches("svg") ? right(panel) - right(element) : 0;
          return right(element) > right(panel) + 1 || unused > 50;
        })
        .map((element) => element.closest(".jupyter-widgets")?.textContent.slice(0, 40));
    },

    stopKernel: () => panel()?.sessionContext?.shutdown(),
  };
})();

"""Fits the panel into JupyterLab: figures as wide as the panel, keys that reach the pickers."""

from __future__ import annotations

import anywidget

SCRIPT = """
const TOLERANCE = 4, SOON_MS = 20, FIRST_MS = 250, LAST_MS = 2000;
function render({ el }) {
  el.style.width = "100%";
  el.style.height = "0";
  let timer, watched, patience = FIRST_MS;
  const lookIn = (milliseconds) => {
    clearTimeout(timer);
    timer = setTimeout(look, milliseconds);
  };
  // Until it fits: plotly may not listen yet, and it may draw again at its own width.
  const look = () => {
    const figure = el.closest(".wb-figure");
    const drawn = figure?.querySelector(".main-svg");
    if (drawn && drawn !== watched) observer.observe((watched = drawn));
    if (!el.clientWidth) return;
    if (drawn && Math.abs(drawn.clientWidth - figure.clientWidth) <= TOLERANCE) return;
    if (drawn) window.dispatchEvent(new Event("resize"));
    lookIn(patience);
    patience = Math.min(2 * patience, LAST_MS);
  };
  const observer = new ResizeObserver(() => {
    patience = FIRST_MS;
    lookIn(SOON_MS);
  });
  observer.observe(el);
  // plotly draws 100 ms after the last resize: whoever asks again sooner puts it off
  const resized = () => lookIn(patience);
  window.addEventListener("resize", resized);
  // JupyterLab's command mode would take the arrow keys away from a focused picker
  requestAnimationFrame(() => el.closest(".wb-panel")?.addEventListener("focusin",
    ({ target }) => { target.dataset.lmSuppressShortcuts = "true"; }));
  return () => {
    clearTimeout(timer);
    observer.disconnect();
    window.removeEventListener("resize", resized);
  };
}
export default { render };
"""


class Fit(anywidget.AnyWidget):
    """An empty line across the panel.

    It tells the window when the figure above it is not as wide as the panel, since plotly figures
    listen to nothing else, and keeps JupyterLab's shortcuts away from a focused control.
    """

    _esm = SCRIPT

"""Fits the panel into JupyterLab: figures as wide as the panel, keys that reach the pickers."""

from __future__ import annotations

import anywidget

SCRIPT = """
const TOLERANCE = 4, TRIES = 20;
function render({ el }) {
  el.style.width = "100%";
  el.style.height = "0";
  let width = 0;
  const resize = () => window.dispatchEvent(new Event("resize"));
  // plotly listens only some time after it has drawn, and may draw again: looked at for a while
  const settle = (tries) => {
    const figure = el.closest(".wb-figure");
    const drawn = figure?.querySelector(".main-svg");
    if (!drawn || Math.abs(drawn.clientWidth - figure.clientWidth) > TOLERANCE) resize();
    if (tries) setTimeout(() => settle(tries - 1), 150);
  };
  const observer = new ResizeObserver(() => {
    if (el.clientWidth === width) return;
    width = el.clientWidth;
    requestAnimationFrame(() => settle(TRIES));
  });
  observer.observe(el);
  // JupyterLab's command mode would take the arrow keys away from a focused picker
  requestAnimationFrame(() => el.closest(".wb-panel")?.addEventListener("focusin",
    ({ target }) => { target.dataset.lmSuppressShortcuts = "true"; }));
  return () => observer.disconnect();
}
export default { render };
"""


class Fit(anywidget.AnyWidget):
    """An empty line across the panel.

    It tells the window when the panel's width changes, since plotly figures listen to nothing
    else, and keeps JupyterLab's shortcuts away from a focused control.
    """

    _esm = SCRIPT

"""Makes plotly figures as wide as the panel: they only listen to the window, so it is told."""

from __future__ import annotations

import anywidget

SCRIPT = """
function render({ el }) {
  el.style.width = "100%";
  el.style.height = "0";
  let width = 0;
  const observer = new ResizeObserver(() => {
    if (el.clientWidth !== width) {
      width = el.clientWidth;
      requestAnimationFrame(() => window.dispatchEvent(new Event("resize")));
    }
  });
  observer.observe(el);
  return () => observer.disconnect();
}
export default { render };
"""


class Fit(anywidget.AnyWidget):
    """An empty line across the panel that reports when its width changes."""

    _esm = SCRIPT

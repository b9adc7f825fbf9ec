"""The live panels: ipywidgets over core and views. The only place that knows widgets."""

from workbench.ui.explorer import Explorer, explore

__all__ = ["Explorer", "explore"]

"""The live panels: ipywidgets over core and views. The only place that knows widgets."""

from workbench.ui.front_door import FrontDoor, explore

__all__ = ["FrontDoor", "explore"]

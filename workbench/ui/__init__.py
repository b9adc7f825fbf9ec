"""The live panels: ipywidgets over core and views. The only place that knows widgets."""

from workbench.ui.front_door import FrontDoor, explore
from workbench.ui.open_lab import OpenLab, lab

__all__ = ["FrontDoor", "OpenLab", "explore", "lab"]

"""The labs: their titles, what each is called in `wb.lab`, and what it shows."""

from typing import NamedTuple

from workbench.core.package_data import package_data


class LabKind(NamedTuple):
    """One lab, an entry of labs.json."""

    name: str
    """In `wb.lab`."""
    panel: str
    """Where its panel is made: module and name, below `workbench.ui.panels`."""
    line: str
    """What it shows."""
    with_gpu: str = ""
    """What runs without a GPU, and what one adds; empty where nothing is launched."""


LABS = {title: LabKind(**one) for title, one in package_data("workbench.door", "labs.json").items()}
"""Title -> lab, in the order of the links; plotly and torch come with some."""

LESSON = "lessons/01_order_of_initialisation.ipynb"
"""The first lesson, below the folder of the notebooks."""
LESSON_PAGE = f"lite/lab/index.html?path={LESSON}"
"""The same in JupyterLite, from the site's pages."""

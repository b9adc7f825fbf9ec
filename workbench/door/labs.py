"""The labs: their titles, what each is called in `wb.lab`, and what it shows."""

from typing import NamedTuple

from workbench.core.package_data import package_data
from workbench.views.door.buttons import button, toolbar
from workbench.views.html import Html, tag


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


def lab_links(present: str, lesson: str) -> Html:
    """Return a link for every lab, and to the first lesson; the one of the open lab closes it.

    present: title of the open lab, or "". lesson: see `learn`.
    """
    links = (button(title, "lab", title, aria_expanded=title == present) for title in LABS)
    labs = toolbar("Labs", tag("b", "Labs"), *links, class_="wb-lab-links")
    return tag("div", labs, learn(lesson), class_="wb-lab-row")


def learn(lesson: str) -> Html:
    """Return a link to the first lesson; nothing where there is no address of it."""
    link = tag("a", "lesson 1", href=lesson, target="_blank")
    return tag("p", tag("b", "Learn"), " ", link, class_="wb-learn") if lesson else Html()

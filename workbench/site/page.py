"""The front door in a browser: runs in the page's worker, and answers one message at a time."""

import json
from collections.abc import Mapping
from typing import Any

from workbench.door.door import Door
from workbench.door.labs import LESSON_PAGE, learn
from workbench.door.session import RecordedError, error_html
from workbench.extras import DISTRIBUTION
from workbench.scenario import Scenario
from workbench.views.html import Html, join, note, tag

LABS_RUN = (
    "The labs (bytes of a page, block tables, flex attention, sweeps and others) launch kernels "
    "and run in JupyterLab. Paste this page's link there: "
)
IN_JUPYTER = (
    LABS_RUN,
    tag("code", f"pip install '{DISTRIBUTION}[lab,kernels]'"),
    ", then ",
    tag("code", "workbench lab"),
    ".",
)


class PageDoor(Door):
    """The front door whose state is drawn by the page's script."""

    def __init__(self) -> None:
        super().__init__(Scenario())
        self.state: dict[str, Any] = {"regions": {}}
        self.start()

    def draw(self, drawn: Mapping[str, str], fingerprint: str, announced: str) -> None:
        """Keep the regions for the page."""
        self.state = {
            "regions": dict(drawn),
            "plan": fingerprint,
            "announced": announced,
            "stale": False,
            "addressed": True,
        }

    def show_error(self, error: RecordedError) -> None:
        """Show an unhandled exception in place; what is below it is of an older scenario."""
        regions = {**self.state["regions"], "error": error_html(error)}
        self.state = {**self.state, "regions": regions, "stale": True}

    def switch_lab(self, title: str) -> None:
        """Say where labs run."""
        self._look(complaint=note(*IN_JUPYTER))

    show_lab = switch_lab

    def lab_links(self) -> Html:
        """Return where labs run, and the lesson that runs in this browser."""
        return join(note(*IN_JUPYTER), learn(LESSON_PAGE))


_door = PageDoor()


def answer(message: str = "") -> str:
    """Return the page's state, as JSON, after a message of its script: an object, as JSON."""
    if message:
        _door.receive(json.loads(message))
    return json.dumps(_door.state)

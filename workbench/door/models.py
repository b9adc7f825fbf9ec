"""The models that can be chosen by name, as links."""

import json

from workbench.models.load import hybrids_first, is_of_hybrids
from workbench.views.door.buttons import button
from workbench.views.html import Html, fold, join, prose, tag

OTHERS = (
    "Any other model: enter the path of its config.json, its content, or its Hub id. "
    "`workbench coverage` lists every architecture of a vLLM release: read, compared, or refused."
)


def models_html() -> Html:
    """Return the catalog, hybrids first; a click takes the model."""
    names = hybrids_first()
    hybrids = [name for name in names if is_of_hybrids(name)]
    others = names[len(hybrids) :]
    return join(
        tag("p", tag("b", f"{len(hybrids)} of families with hybrids:")),
        _links(hybrids),
        fold(f"{len(others)} others", _links(others)),
        tag("p", prose(OTHERS)),
    )


def _links(names: list[str] | tuple[str, ...]) -> Html:
    links = (button(one, "apply", json.dumps({"model": one}), class_="wb-link") for one in names)
    return tag("div", join(*links, between=" "), class_="wb-from")

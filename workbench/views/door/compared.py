"""Three and more scenarios next to each other: the answers of each, and one click to show it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from workbench.core.what_if.answers import Answers
from workbench.scenario import Scenario
from workbench.scenario.fields import FIELDS
from workbench.views.door.buttons import data_button
from workbench.views.door.tiles import TILES, room_word
from workbench.views.html import Html, faint, stacked, tag, wide_table
from workbench.views.settings import changes_text, in_labels


class Row(NamedTuple):
    """One of the scenarios. refused: why it has no answers; requests: to count at a time."""

    scenario: Scenario
    answers: Answers | None
    refused: str
    requests: int | None


def compared_table(rows: Sequence[Row], present: Scenario) -> Html:
    """Return a row of answers per scenario, named by the fields in which they differ."""
    header = ("Scenario", *(tile.label for tile in TILES))
    return wide_table(header, (_cells(row, _name(row, rows), present) for row in rows))


def _name(row: Row, rows: Sequence[Row]) -> str:
    stated = [one.scenario.to_dict() for one in rows]
    own = row.scenario.to_dict()
    differ = {name: own[name] for name in FIELDS if any(one[name] != own[name] for one in stated)}
    model = differ.pop("model", "")
    named = (model if isinstance(model, str) else "inline config", changes_text(differ))
    requests = f"{row.requests:,} requests at a time" if row.requests else ""
    return ", ".join(filter(None, (*named, requests)))


def _cells(row: Row, name: str, present: Scenario) -> Iterator[Html]:
    is_shown = row.scenario == present
    yield tag("b", name) if is_shown else data_button(name, "use", row.scenario.stated())
    found = row.answers
    if found is None:
        yield from (Html(), Html(), Html(), tag("span", in_labels(row.refused)))
        return
    for tile in TILES:
        parts = [tag("b", tile.value(found)), faint(tile.words(found))]
        if tile.view == "fits" and row.requests and found.requests:
            parts.append(Html(f"{row.requests:,} at a time: {room_word(row.requests, found)}"))
        yield stacked(*parts)

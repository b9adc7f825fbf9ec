"""The four answers as tiles, alone or compared with those of a pinned scenario."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from workbench.core.what_if.answers import Answers
from workbench.views.html import Html, faint, tag
from workbench.views.units import percent_text

MORE, LESS, SAME = "▲", "▼", "="


class Tile(NamedTuple):
    """One answer: its view, its value, the words below it, and the number that is compared."""

    view: str
    label: str
    value: Callable[[Answers], str]
    words: Callable[[Answers], str]
    number: Callable[[Answers], float | None]


STARTS = {
    "yes": "✓ would start",
    "no": "✕ would not start",
    "perhaps": "? may start",
    "unknown": "? not known",
}


def _hit(one: Answers) -> str:
    return "no hit" if one.hit_tokens is None else f"{one.hit_tokens:,} tokens"


def _hit_words(one: Answers) -> str:
    return one.no_hit_reason or "shortest prompt that can hit"


def _requests(one: Answers) -> str:
    if one.requests is None:
        return "?"
    least, most = one.requests
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _requests_words(one: Answers) -> str:
    words = f"requests of {one.length_tokens:,} tokens fit"
    if one.requests is None:
        return "requests that fit: choose a device, or the KV-cache memory per GPU"
    return words + (f" on {one.devices} GPUs" if one.devices > 1 else "")


def _starts_words(one: Answers) -> str:
    if one.starts == "perhaps":
        return "the least estimate of the memory is too little, the most is enough"
    if one.starts == "unknown":
        return "no blockers, but the memory is not known: choose a device"
    return "no blockers known" if one.starts == "yes" else "see the blockers"


TILES = (
    Tile(
        "why",
        "KV block",
        lambda one: f"{one.block_tokens:,} tokens",
        lambda one: f"KV block, padding {percent_text(one.padding_percent)}",
        lambda one: one.block_tokens,
    ),
    Tile("hits", "Prefix hits", _hit, _hit_words, lambda one: one.hit_tokens),
    Tile("fits", "Capacity", _requests, _requests_words, lambda one: one.requests_per_device),
    Tile("start", "Start", lambda one: STARTS[one.starts], _starts_words, lambda _one: None),
)


def tiles(now: Answers, pinned: Answers | None = None) -> Html:
    """Return the four tiles; each opens its explanation. pinned: the answers of A."""
    return tag("div", *(_tile(tile, now, pinned) for tile in TILES), class_="wb-tiles")


def _tile(tile: Tile, now: Answers, pinned: Answers | None) -> Html:
    value = tile.value(now)
    parts: list[Html] = [tag("span", value, class_="wb-tile-value"), Html(" ")]
    parts.append(tag("span", tile.words(now), class_="wb-tile-words"))
    if pinned is not None:
        parts += [Html(" "), _compared(tile, now, pinned)]
    name = f"{tile.label}: {value}, {tile.words(now)}"
    look = {"class_": "wb-tile", "data_do": "view", "data_arg": tile.view, "data_key": tile.view}
    return tag("button", *parts, type="button", aria_label=name, data_tile=tile.view, **look)


def _compared(tile: Tile, now: Answers, pinned: Answers) -> Html:
    """Return the pinned value, and the difference in words and with a sign."""
    text = f"A: {tile.value(pinned)}"
    old, new = tile.number(pinned), tile.number(now)
    if old is not None and new is not None:
        text += f", {_difference(old, new)}"
    return faint(text, data_pinned=tile.view)


def _difference(old: float, new: float) -> str:
    if old == new:
        return f"{SAME} the same"
    sign = MORE if new > old else LESS
    return f"{sign} {abs(new - old):,.10g}" + (f" ({new / old - 1:+.0%})" if old else "")


def announcement(now: Answers) -> str:
    """Return the answers in one sentence, for a screen reader."""
    return "; ".join(_sentences(now)) + "."


def _sentences(now: Answers) -> Iterable[str]:
    for tile in TILES:
        yield f"{tile.label}: {tile.value(now)}, {tile.words(now)}"

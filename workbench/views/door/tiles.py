"""The four answers as tiles, alone or compared with those of a pinned scenario."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from workbench.core.what_if.answers import Answers
from workbench.scenario import FIELDS
from workbench.views.door.buttons import button
from workbench.views.html import Html, bullets, faint, join, tag
from workbench.views.settings import in_labels
from workbench.views.units import bytes_text, percent_text, range_text

MORE, LESS, SAME = "▲", "▼", "="


class Link(NamedTuple):
    """A way from an answer to where more is known about it."""

    label: str
    do: str
    arg: str


@dataclass(frozen=True, kw_only=True)
class Tile:
    """One answer."""

    view: str
    """The explanation that it opens."""
    label: str
    value: Callable[[Answers], str]
    words: Callable[[Answers], str]
    """What is shown below the value."""
    number: Callable[[Answers], float | None]
    """What two scenarios are compared by."""
    per: str = ""
    """What that number is of, where it is not the value."""
    reads_on: Callable[[Answers], bool] = lambda _one: False
    """Whether value and words are one phrase: "12 requests of 32,768 tokens fit"."""
    links: Callable[[Answers], Sequence[Link]]


STARTS = {
    "yes": "✓ would start",
    "no": "✕ would not start",
    "perhaps": "? may start",
    "unknown": "? not known",
}


def _block_words(one: Answers) -> str:
    if one.is_uncached:
        return "KV block in name only: no layer keeps keys and values"
    if one.is_attention_free:
        return "KV block in name only: without attention a block is one state"
    if one.is_hybrid:
        return f"KV block, padding {percent_text(one.padding_percent)}"
    return "KV block, no states to align with"


def _serves_none(one: Answers) -> bool:
    return one.is_stopped and one.requests is not None


def _requests(one: Answers) -> str:
    if one.is_uncached:
        return "no limit"
    if _serves_none(one):
        return "none"
    if one.requests is None:
        return "?"
    least, most = one.requests
    return range_text(f"{least:,}", f"{most:,}")


def _requests_words(one: Answers) -> str:
    if one.is_uncached:
        return "from the KV cache: this model keeps none"
    if _serves_none(one):
        return "can be served, as vLLM would not start"
    is_one = one.requests == (1, 1)
    words = "request of {:,} tokens fits" if is_one else "requests of {:,} tokens fit"
    words = words.format(one.length_tokens)
    if one.requests is None:
        where = "on which device" if one.needs == "device" else f"with which {_needed(one)}"
        return f"requests fit {where}?" if one.needs else "no cache, so no requests"
    return words + (f" on {one.devices} GPUs" if one.devices > 1 else "")


def _needed(one: Answers) -> str:
    return FIELDS[one.needs].label if one.needs else ""


COMMON_DEVICES = ("H100", "H200", "B200", "MI300X")


def _missing(one: Answers) -> list[Link]:
    """Return what opens the control that the memory needs; a choice of devices for the device."""
    if one.requests is not None or one.needs is None or one.is_uncached:
        return []
    if one.needs != "device":
        return [Link(f"set {_needed(one)}", "open", one.needs)]
    common = [Link(name, "device", name) for name in COMMON_DEVICES]
    return [*common, Link("other", "open", "device")]


def _has_room(one: Answers) -> bool:
    return bool(one.requests) and not one.is_stopped


def _hit_links(one: Answers) -> list[Link]:
    if one.is_uncached:
        return []
    fix = Link("fix" if one.hit_tokens is None else "shorten", "goal", "hits")
    return [fix, Link("your workload", "show_lab", "Prefix hits")]


def _starts_words(one: Answers) -> str:
    if one.starts == "perhaps":
        return "the memory is estimated: its lowest value is too little, its highest is enough"
    if one.starts == "unknown":
        what = "a device" if one.needs == "device" else _needed(one)
        return f"no blockers known; its memory needs {what}"
    if one.starts == "no":
        return in_labels(one.blocker or "blocked by the memory")
    return "no blockers known"


TILES = (
    Tile(
        view="why",
        label="KV block",
        value=lambda one: f"{one.block_tokens:,} tokens",
        words=_block_words,
        number=lambda one: one.block_tokens,
        links=lambda one: [] if one.is_uncached else [Link("every byte", "show_lab", "Page bytes")],
    ),
    Tile(
        view="hits",
        label="Prefix hits",
        value=lambda one: "no hit" if one.hit_tokens is None else f"{one.hit_tokens:,} tokens",
        words=lambda one: in_labels(one.no_hit_reason or "shortest prompt that can hit"),
        number=lambda one: one.hit_tokens,
        links=_hit_links,
    ),
    Tile(
        view="fits",
        label="Capacity",
        value=_requests,
        words=_requests_words,
        number=lambda one: None if one.is_stopped else one.requests_per_device,
        per=" per GPU",
        reads_on=lambda one: one.requests is not None,
        links=lambda one: [
            *_missing(one),
            *([Link("where it goes", "show_lab", "Groups and capacity")] * _has_room(one)),
        ],
    ),
    Tile(
        view="start",
        label="Start",
        value=lambda one: STARTS[one.starts],
        words=_starts_words,
        number=lambda _one: None,
        links=lambda one: [
            *([Link("fix", "goal", "starts")] if one.starts in {"no", "perhaps"} else []),
            Link("ask my vLLM", "show_lab", "Live check"),
        ],
    ),
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
    answer = button(join(*parts), "view", tile.view, key=tile.view, class_="wb-answer")
    links = (
        button(f"{one.label} ▸", one.do, one.arg, key=f"{tile.view}-{one.label}", class_="wb-link")
        for one in tile.links(now)
    )
    body = (answer, tag("div", *links, class_="wb-tile-links"))
    return tag(
        "div", *body, role="group", aria_label=tile.label, class_="wb-tile", data_tile=tile.view
    )


def _compared(tile: Tile, now: Answers, pinned: Answers) -> Html:
    """Return the pinned value, and the difference in words and with a sign."""
    text = f"A: {tile.value(pinned)}"
    old, new = tile.number(pinned), tile.number(now)
    if old is not None and new is not None:
        text += f", {_difference(old, new, tile.per)}"
    return faint(text, data_pinned=tile.view)


def _difference(old: float, new: float, per: str) -> str:
    if old == new:
        return f"{SAME} the same{per}"
    sign = MORE if new > old else LESS
    share = f" ({100 * (new / old - 1):+.0f} %)" if old else ""
    return f"{sign} {abs(new - old):,.10g}{per}{share}"


def announcement(now: Answers) -> str:
    """Return the answers in one sentence, for a screen reader."""
    return "; ".join(f"{tile.label}: {_phrase(tile, now, ', ')}" for tile in TILES) + "."


def answer_list(now: Answers) -> Html:
    """Return the answers for a page that cannot be clicked."""
    return bullets(_phrase(tile, now, ": ") for tile in TILES)


def capacity(now: Answers, *, has_states: bool) -> Html:
    """Return how many requests fit, and what one of them takes; nothing where it is not known."""
    if now.requests is None or now.request_bytes is None or now.is_stopped:
        return Html()
    fit, held = f"{_requests(now)} {_requests_words(now)}", bytes_text(now.request_bytes)
    where = " of all GPUs together" if now.devices > 1 else ""
    words = f". Each reserves whole blocks{', also for its states' if has_states else ''}: "
    return tag("p", tag("b", fit), f"{words}{held} of the KV cache{where}.")


def room_for(wanted: int, now: Answers) -> str:
    """Return whether so many requests fit at a time; nothing where it is not known."""
    if now.requests is None or now.is_stopped:
        return ""
    word = room_word(wanted, now)
    more = {"perhaps": "; the memory is estimated", "no": "; the others wait"}.get(word, "")
    return f"{wanted:,} at a time: {word}, {_requests(now)} {_requests_words(now)}{more}."


def room_word(wanted: int, now: Answers) -> str:
    """Return whether so many requests fit at a time: yes, perhaps or no."""
    least, most = (0, 0) if now.is_stopped else now.requests or (0, 0)
    return "yes" if wanted <= least else "perhaps" if wanted <= most else "no"


def answer_to(view: str, now: Answers) -> str:
    """Return the answer that a view explains; nothing for the other views."""
    return "; ".join(_phrase(one, now, ": ") for one in TILES if one.view == view)


def _phrase(tile: Tile, now: Answers, between: str) -> str:
    value = tile.value(now)
    value = "? not known" if value == "?" else value
    return f"{value}{' ' if tile.reads_on(now) else between}{tile.words(now)}"

"""The changes that are worth a click, as cards: what each gains and what it costs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.core.what_if.next_steps import Difference, NextStep
from workbench.views.door.buttons import button
from workbench.views.html import Html, join, tag
from workbench.views.settings import changes_text
from workbench.views.units import short_bytes_text

SHOWN = 3
"""Cards that are shown without a click: as many as fit side by side next to a file browser."""
STARTS = {0: "does not start", 1: "start not known", 2: "starts"}
BESIDES: Mapping[str, Mapping[Any, str]] = {
    "kv_cache_dtype": {"fp8": "8-bit keys and values"},
    "mamba_ssm_cache_dtype": {"bfloat16": "16-bit states"},
    "num_speculative_tokens": {0: "no speculative decoding"},
    "kv_connector": {None: "no blocks outside of the engine"},
}
"""Field -> value -> what it costs in addition to the numbers."""
BESIDES_OF_ANY = {
    "max_num_batched_tokens": "prefills of at most {:,} tokens per step",
    "max_model_len": "requests of more than {:,} tokens are refused",
    "gpu_memory_utilization": "less memory for anything else on the GPU",
    "kv_cache_memory_bytes": "as much memory has to be free on each GPU",
    "kv_cache_memory_bytes_by_rank": "as much memory has to be free on each GPU",
    "device_memory_bytes": "another GPU",
}
"""Field -> the same, for every value."""
NOTHING = "nothing"
WHOLE = 100
"""From here on a number of requests is shown without decimals."""


def next_cards(steps: Sequence[NextStep], goal: str, *, everything: bool = False) -> Html:
    """Return one card per change; the first ones, of which none harms the goal, or all."""
    shown = [*enumerate(steps)] if everything else _first(steps, goal)
    if not shown:
        return tag("p", "No single change gains anything for this goal.", class_="wb-faint")
    return tag("div", *(_card(*one) for one in shown), class_="wb-cards")


def _first(steps: Sequence[NextStep], goal: str) -> list[tuple[int, NextStep]]:
    """Return the first ones with their places among all, by which a click names them."""
    return [(at, one) for at, one in enumerate(steps[:SHOWN]) if not one.harms(goal)]


def all_link(steps: Sequence[NextStep], goal: str, *, everything: bool = False) -> Html:
    """Return the link that shows every change; nothing where all are shown."""
    if everything or len(steps) == len(_first(steps, goal)):
        return Html()
    return button(f"all {len(steps)} changes", "all", key="all", class_="wb-link")


def _card(number: int, step: NextStep) -> Html:
    words = join(tag("b", changes_text(step.changes)), *gains_and_costs(step, "starts"))
    return button(words, "next", number, key=f"next-{number}", class_="wb-card")


def gains_and_costs(step: NextStep, without_gain: str = NOTHING) -> tuple[Html, Html]:
    """Return what a change gains, and what it costs."""
    gained = _texts(step.gains)
    has_fewer = any(one.measure == "devices" for one in step.gains)
    weights = ["more weights on each GPU"] * (has_fewer and "tensor_parallel" in step.changes)
    lost = [*_texts(step.costs), *weights, *_besides(step.changes)]
    if not gained and not lost and without_gain == NOTHING:
        return tag("span", " None of the four answers changes.", class_="wb-gain"), Html()
    return (
        tag("span", f" Gain: {', '.join(gained) or without_gain}.", class_="wb-gain"),
        tag("span", f" Cost: {', '.join(lost) or 'nothing known'}.", class_="wb-cost"),
    )


def _besides(changes: Mapping[str, Any]) -> Iterable[str]:
    for name, value in changes.items():
        if value in BESIDES.get(name, {}):
            yield BESIDES[name][value]
        elif value is not None and name in BESIDES_OF_ANY:
            yield BESIDES_OF_ANY[name].format(value)


def _texts(found: Iterable[Difference]) -> list[str]:
    return [_text(one) for one in found]


def _text(one: Difference) -> str:
    old, new = one.before or 0.0, one.after or 0.0
    match one.measure:
        case "starts":
            return "no blockers known" if new > old and new == 1 else STARTS[int(new)]
        case "requests":
            return f"{_count(new)} request{'s' * (new != 1)} per GPU instead of {_count(old)}"
        case "request_bytes":
            before = short_bytes_text(int(old))
            return f"{short_bytes_text(int(new))} per request instead of {before}"
        case "hits":
            return _hits(old, new)
        case "padding":
            return f"padding {new:.2f} % instead of {old:.2f} %"
        case _:
            return f"{new:,.0f} GPU{'s' * (new != 1)} instead of {old:,.0f}"


def _count(number: float) -> str:
    """Return a number of requests, with three digits or all that are before the point."""
    return f"{number:,.0f}" if number >= WHOLE else f"{number:.3g}"


def _hits(old: float, new: float) -> str:
    if new == float("inf"):
        return "no prefix hits"
    if old == float("inf"):
        return f"prefix hits from {new:,.0f} tokens"
    return f"hits from {new:,.0f} tokens instead of {old:,.0f}"

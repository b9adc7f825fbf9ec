"""What a device's memory is spent on, as HTML."""

from collections.abc import Callable

from workbench.core.capacity.memory_answer import MemoryAnswer
from workbench.views.html import document, note, table, tag
from workbench.views.settings import in_labels
from workbench.views.units import bytes_text, short_bytes_text, tokens_text

VERDICTS = {
    "yes": "vLLM starts",
    "no": "vLLM does not start",
    "perhaps": "vLLM may start: the lowest estimate is too little, the highest is enough",
    "unknown": "unknown",
}


def answer_html(answer: MemoryAnswer) -> str:
    """Return the verdict, the range and every term; what is missing where it is unknown."""
    if answer.cache_bytes is None:
        return document(tag("p", in_labels(f"The memory is unknown: {answer.missing}")))
    rows = [(one.name, bytes_text(one.size_bytes), in_labels(one.source)) for one in answer.terms]
    return document(
        tag("div", tag("b", VERDICTS[answer.starts]), class_="wb-headline"),
        tag("p", range_text(answer)),
        table(("on one rank", "", "from"), rows) if rows else "",
        _doubts(answer) if answer.is_estimate else "",
    )


def _doubts(answer: MemoryAnswer) -> str:
    """Return why the range is as wide as it is, the largest reason first."""
    rows = [
        (in_labels(one.reason), f"\N{PLUS-MINUS SIGN} {bytes_text(one.size_bytes)}")
        for one in answer.doubts
    ]
    return table(("in doubt", ""), rows) + note(
        "Weights follow from config.json; what vLLM measures while it starts is estimated."
    )


def range_text(answer: MemoryAnswer) -> str:
    """Return what the cache gets, in bytes and in tokens, or how much memory is missing."""
    if answer.cache_bytes is None or answer.tokens is None:
        return "unknown"
    least, most = answer.cache_bytes
    if most < 0:
        return f"KV cache: nothing, {_both(short_bytes_text, -most, -least)} are missing"
    return f"KV cache: {_both(bytes_text, least, most)}; {_both(tokens_text, *answer.tokens)}"


def _both(text: Callable[[int], str], least: int, most: int) -> str:
    """Return a range; one number where both ends read the same."""
    return " to ".join(dict.fromkeys(map(text, (least, most))))

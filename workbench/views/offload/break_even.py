"""When loading a stored prefix pays: a table of links, and the length at measured rates."""

from __future__ import annotations

from workbench.core.offload.break_even import LoadedPrefix
from workbench.core.offload.plan import Offload
from workbench.views.html import Html, document, join, note, table, tag
from workbench.views.units import short_bytes_text, tokens_text

LINKS = {
    "network of 100 Gbit/s": 12.5e9,
    "PCIe 4.0 x16": 31.5e9,
    "network of 400 Gbit/s": 50e9,
    "PCIe 5.0 x16": 63e9,
}
"""Link -> bytes per second that its standard allows; what is measured is less."""
LEAD = "Loading is quicker than computing while a prefill computes fewer tokens per second than"


def break_even_html(
    found: Offload, tokens: int, prefill_tokens_per_s: int | None, link_bytes_per_s: int | None
) -> str:
    """Return the break-even of a prompt over usual links, and that of the rates if both are given.

    Nothing after a failed check, and for a prompt that is shorter than one offloaded block.
    """
    loaded = found.loaded_prefix(tokens) if found.is_legal else None
    if loaded is None or not loaded.bytes_per_rank:
        return ""
    rows = ((name, *_of_link(loaded, rate)) for name, rate in LINKS.items())
    columns = ("link of each GPU, as its standard allows", "loading takes", "tokens per second")
    own = Html()
    if prefill_tokens_per_s and link_bytes_per_s:
        words = break_even_text(found, prefill_tokens_per_s, link_bytes_per_s)
        own = tag("p", tag("b", words))
    return document(
        tag("h4", "When does loading pay?"),
        own,
        tag("p", f"{loaded_text(loaded)} {LEAD}:"),
        join(table(columns, rows)),
        note(
            "Only bytes are counted: no time until the first byte, and a prefill that is as quick "
            "for every length. Attention makes long prefills slower, so they gain more."
        ),
    )


def loaded_text(loaded: LoadedPrefix) -> str:
    """Return what a prompt loads, in a sentence."""
    size = short_bytes_text(loaded.bytes_per_rank)
    return f"A stored prefix of {tokens_text(loaded.tokens)} loads {size} on each GPU."


def break_even_text(found: Offload, prefill_tokens_per_s: int, link_bytes_per_s: int) -> str:
    """Return from which length on loading pays at these rates."""
    tokens = found.break_even_tokens(
        prefill_tokens_per_s=prefill_tokens_per_s, link_bytes_per_s=link_bytes_per_s
    )
    rates = f"At {prefill_tokens_per_s:,} tokens/s and {link_bytes_per_s / 1e9:,.1f} GB/s"
    if tokens is None:
        return f"{rates} computing is quicker than loading for every length."
    return f"{rates} loading pays from {tokens_text(tokens)} of shared prefix on."


def links_text(loaded: LoadedPrefix) -> str:
    """Return the break-even over two usual links, in a sentence."""
    named = [name for name in LINKS if name.startswith("PCIe")]
    rates = (f"{_of_link(loaded, LINKS[name])[1]} over {name}" for name in reversed(named))
    return f"{LEAD} {' or '.join(rates)}, at most."


def _of_link(loaded: LoadedPrefix, rate: float) -> tuple[str, str]:
    """Return how long a link takes, and the rate of a prefill at which both are as quick."""
    milliseconds = 1000 * loaded.seconds(rate)
    return f"{milliseconds:,.1f} ms", f"{loaded.most_prefill_tokens_per_s(rate):,.0f}"

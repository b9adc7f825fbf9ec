"""The parts of an attention page and of a state page: their bytes, colours and words."""

from math import prod
from typing import NamedTuple

from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.plan import Plan
from workbench.views import palette
from workbench.views.token_bytes import keeps_entries, page_token_bytes
from workbench.views.units import bytes_text, percent_text, tokens_text

KV, CONV, RECURRENT, PADDING = "kv", "conv", "recurrent", "padding"


class Look(NamedTuple):
    """How a part is drawn: its name, and a colour and a pattern that differ from all others."""

    label: str
    colour: str
    pattern: str = ""


LOOKS = {
    KV: Look("K and V", palette.ATTENTION),
    CONV: Look("conv state", palette.CONV),
    RECURRENT: Look("recurrent state", palette.RECURRENT),
    PADDING: Look("padding", palette.PADDING, "/"),
}


class PagePart(NamedTuple):
    """One part of a page. words: its operands, and its size in bytes."""

    label: str
    size_bytes: int
    words: str


def page_parts(plan: Plan) -> dict[str, PagePart]:
    """Return the parts that the pages of `plan` have, in the order of their bytes."""
    parts = {}
    if size := plan.attention_page_size_bytes:
        attention = plan.model.attention
        label = "latent KV" if attention and attention.use_mla else LOOKS[KV].label
        words = (
            _entries(plan) or f"{tokens_text(plan.block_size)} x {page_token_bytes(plan):,} bytes"
        )
        parts[KV] = PagePart(label, size, f"{words} = {bytes_text(size)}")
    states = plan.model.state.parts if plan.model.state else ()
    shapes = zip(states, plan.layer_state_shapes, plan.mamba_state_dtypes, strict=True)
    for name, shape, dtype in shapes:
        size = prod(shape) * FLOAT_BYTES[dtype]
        one = FLOAT_BYTES[dtype]
        numbers = " x ".join(f"{number:,}" for number in shape)
        words = f"{numbers} x {one} bytes of {dtype} = {bytes_text(size)}"
        parts[name] = PagePart(LOOKS[name].label, size, words)
    if size := plan.padding_bytes:
        share = f"{percent_text(plan.padding_percent)} of the state"
        parts[PADDING] = PagePart(LOOKS[PADDING].label, size, f"{bytes_text(size)}: {share}")
    return parts


def compressed_spec(plan: Plan) -> CacheSpec | None:
    """Return the spec of the page of keys and values if an entry of it is of several tokens."""
    layers = plan.cache.grouping.layers if plan.cache else {}
    for _group, spec in layers.values():
        if spec.tokens_per_state > 1 and spec.page_size_bytes == plan.attention_page_size_bytes:
            return spec
    return None


def _entries(plan: Plan) -> str:
    """Return the entries of such a page, and what is left of it; nothing for another page."""
    spec = compressed_spec(plan)
    if spec is None:
        size, one = plan.attention_page_size_bytes or 0, plan.attention_bytes_per_token
        return f"{size // one:,} entries x {one:,} bytes" if keeps_entries(plan) and one else ""
    number = max(spec.block_size // spec.tokens_per_state, 1)
    one = (spec.page_size_bytes - spec.padding_bytes) // number
    left = f" + {spec.padding_bytes:,} bytes to align it" if spec.padding_bytes else ""
    return f"{number:,} entries, each of {spec.tokens_per_state:,} tokens, x {one:,} bytes{left}"

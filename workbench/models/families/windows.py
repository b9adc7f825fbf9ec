"""Decoders that declare windows in a way of their own: IQuest-LoopCoder and DomynEdge."""

from dataclasses import replace

from workbench.core.model import FULL, SLIDING, Attention, Layer
from workbench.models.attention import read_attention
from workbench.models.family import register
from workbench.models.fields import MAX_LAYERS, Fields
from workbench.models.layer_lists import check_length, to_layers

SIZES = "window_sizes"


def _looped(fields: Fields) -> tuple[Layer, ...]:
    """Return the layers of all runs: each has caches of its own, with a window after the first."""
    # LoopCoderAttention of iquest_loopcoder.py, 0.23 and 0.33.
    count, runs = fields.layer_count(), fields.integer("loop_num", 2, maximum=MAX_LAYERS)
    return to_layers([FULL] * count + [SLIDING] * count * (runs - 1))


def _looped_attention(fields: Fields) -> Attention:
    window = fields.integer("loop_window_size", 64, name="window_tokens")
    return replace(read_attention(fields), window_tokens=window)


def _windows(fields: Fields) -> list[int]:
    """Return the tokens before its own that each layer reads, 0 for all of them."""
    sizes = fields.raw(SIZES)
    if not isinstance(sizes, list):
        raise fields.missing(SIZES, "the window of each layer")
    check_length(fields, SIZES, sizes)
    found = [pair[0] if isinstance(pair, list) and pair else pair for pair in sizes]
    known = {size for size in found if type(size) is int and size > 0}
    if len(known) > 1 or any(type(size) is not int for size in found):
        raise fields.wrong(SIZES, sizes, "pairs [tokens before, tokens after], of one size or 0")
    return found


def _windowed(fields: Fields) -> tuple[Layer, ...]:
    return to_layers([SLIDING if size > 0 else FULL for size in _windows(fields)])


def _windowed_attention(fields: Fields) -> Attention:
    """Return the attention geometry: the file counts the tokens before, vLLM the own one, too."""
    # DomynEdgeAttention of domyn_edge.py, 0.33.
    largest = max(_windows(fields), default=0)
    window = largest + 1 if largest > 0 else None
    fields.note("window_tokens", window, f"{SIZES} + 1")
    return replace(read_attention(fields), window_tokens=window)


register(
    "looped",
    {"iquestloopcoder": ("IQuestLoopCoderForCausalLM",)},
    _looped,
    attention=_looped_attention,
)
register(
    "window_sizes",
    {"domyn_edge": ("DomynEdgeForCausalLM",)},
    _windowed,
    attention=_windowed_attention,
)

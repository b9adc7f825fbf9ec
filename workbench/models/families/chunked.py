"""Llama 4: layers with rotary positions attend inside chunks, every fourth one to all tokens.

Sources: `Llama4Attention` of 0.23 and 0.33, `Llama4TextConfig` of transformers 5.
"""

from workbench.core.model import CHUNKED, FULL, Layer
from workbench.models.family import register
from workbench.models.fields import Fields
from workbench.models.layer_lists import check_length, to_layers

ROTATED, INTERVAL, CHUNK = "no_rope_layers", "no_rope_layer_interval", "attention_chunk_size"


def read_chunks(fields: Fields) -> tuple[str, ...]:
    """Return the kinds of layers: chunks where positions are rotated, which vLLM goes by alone."""
    kinds = fields.layer_list(ROTATED, {0: FULL, 1: CHUNKED})
    if kinds:
        check_length(fields, ROTATED, kinds)
    else:
        interval = fields.integer(INTERVAL, 4)
        count = fields.layer_count()
        kinds = tuple(CHUNKED if (at + 1) % interval else FULL for at in range(count))
    return kinds if fields.has(CHUNK) else (FULL,) * len(kinds)


def _layers(fields: Fields) -> tuple[Layer, ...]:
    return to_layers(read_chunks(fields))


register(
    "chunked",
    {"llama4": ("Llama4ForConditionalGeneration",), "llama4_text": ("Llama4ForCausalLM",)},
    _layers,
)

"""Decoders whose blocks differ from one layer with one cache: Llama-Nemotron and LongCat.

The blocks of Llama-Nemotron were searched one by one: each has its own number of KV heads, or no
attention and then no cache (`nemotron_nas.py` of 0.23). A block of LongCat has two latent
attentions (`longcat_flash.py`).
"""

from collections.abc import Mapping
from dataclasses import replace

from workbench.core.model import FULL, Attention, Layer
from workbench.models.attention import read_attention
from workbench.models.family import register
from workbench.models.fields import Fields

BLOCKS = "block_configs"
LAYERS, CLASS_LAYERS = "num_hidden_layers", 56
"""Field -> its value in LongCat's class of transformers 5.12, whatever `num_layers` is."""


def _block_kv_heads(fields: Fields) -> tuple[int | None, ...]:
    """Return the KV heads of every searched block, None for one without attention."""
    blocks = fields.raw(BLOCKS)
    if blocks is None:
        raise fields.missing(BLOCKS, "the KV heads of every block")
    if not isinstance(blocks, list) or not blocks:
        raise fields.wrong(BLOCKS, blocks, "a list of blocks")
    if len(blocks) != (count := fields.layer_count()):
        raise fields.contradiction(BLOCKS, f"{len(blocks)} entries for num_hidden_layers = {count}")
    return tuple(_of_block(fields, number, block) for number, block in enumerate(blocks))


def _of_block(fields: Fields, number: int, block: object) -> int | None:
    attention = block.get("attention") if isinstance(block, Mapping) else None
    if not isinstance(attention, Mapping):
        raise fields.contradiction(BLOCKS, f"block {number} does not declare its attention")
    if attention.get("no_op") is True:
        return None
    heads, group = fields.integer("num_attention_heads"), attention.get("n_heads_in_group")
    if isinstance(group, bool) or not isinstance(group, int) or not 1 <= group <= heads:
        raise fields.contradiction(
            BLOCKS, f"n_heads_in_group of block {number} must be from 1 to {heads}"
        )
    # The configuration convertor of 0.23: query heads by the heads that share one KV head.
    return heads // group


def _searched_layers(fields: Fields) -> tuple[Layer, ...]:
    found = _block_kv_heads(fields)
    first = next((heads for heads in found if heads is not None), None)
    return tuple(
        Layer(number=number, kind=FULL, num_kv_heads=None if heads == first else heads)
        for number, heads in enumerate(found)
        if heads is not None
    )


def _searched_attention(fields: Fields) -> Attention:
    found = [heads for heads in _block_kv_heads(fields) if heads is not None]
    attention = read_attention(fields)
    if not found:
        return attention
    fields.note("num_kv_heads", found[0], f"{BLOCKS}, the first block with attention")
    return replace(attention, num_kv_heads=found[0])


def _pairs(fields: Fields) -> tuple[Layer, ...]:
    """Return two layers per block: half of `num_hidden_layers`, without it `num_layers`."""
    # LongcatFlashConfig of transformers 5.20; `RuleSet.lists_blocks` for that of 5.12
    blocks = fields.layer_count() // 2 if LAYERS in fields.text else fields.integer("num_layers")
    return tuple(Layer(number=at, kind=FULL) for at in range(blocks) for _ in range(2))


register(
    "longcat",
    {"longcat_flash": ("LongcatFlashForCausalLM", "LongcatFlashNgramForCausalLM")},
    _pairs,
    layers_in_block=2,
    listed_blocks=lambda fields: fields.integer(LAYERS) if LAYERS in fields.text else CLASS_LAYERS,
)
register(
    "searched_decoder",
    {"nemotron-nas": ("DeciLMForCausalLM",)},
    _searched_layers,
    attention=_searched_attention,
)

"""Dots3Note: sparse MLA whose rows are as wide as those of its MLA layers with a window.

Sources: `Dots3NotePaddedMLAAttention` and `Dots3NoteSlidingAttention` in `vllm/models/dots3_note/`,
0.33, and `hf_config_override` in config/speculative.py.
"""

from dataclasses import replace

from workbench.core.draft_parts import Mtp
from workbench.core.model import FULL, SLIDING, Attention, CompressedCache, Indexer, Layer
from workbench.models.family import register
from workbench.models.fields import Fields
from workbench.models.layer_lists import Words, first_list
from workbench.models.mtp import MORE_KINDS, READERS, one_each

NAME, WINDOWED = "DOTS3_NOTE_PADDED_MLA_SPARSE", "TRITON_MLA"
WORDS: Words = {FULL: FULL, SLIDING: SLIDING, "deepseek_sparse_attention": FULL}


def _row(fields: Fields) -> int:
    """Return the elements of a row of every layer."""
    return fields.integer("swa_kv_lora_rank") + fields.integer("swa_qk_rope_head_dim")


def _kinds(fields: Fields) -> tuple[str, ...]:
    kinds = first_list(fields, {"layer_types": WORDS})
    if kinds is None:
        raise fields.missing("layer_types", "the kinds of layers")
    return kinds


def _built(fields: Fields, kinds: tuple[str, ...], first: int) -> tuple[Layer, ...]:
    window = CompressedCache(
        part="",
        elements=_row(fields),
        window_tokens=fields.integer("sliding_window_size"),
        backend=WINDOWED,
    )
    return tuple(
        Layer(number=number, kind=kind, cache=window if kind == SLIDING else None)
        for number, kind in enumerate(kinds, first)
    )


def _layers(fields: Fields) -> tuple[Layer, ...]:
    return _built(fields, _kinds(fields), 0)


def _attention(fields: Fields) -> Attention:
    row, kinds = _row(fields), _kinds(fields)
    fields.note("head_size", row, "swa_kv_lora_rank + swa_qk_rope_head_dim (rows of one width)")
    windows = frozenset(number for number, kind in enumerate(kinds) if kind == SLIDING)
    return Attention(
        num_heads=fields.integer("num_attention_heads", name="num_heads"),
        num_kv_heads=1,
        head_size=row,
        use_mla=True,
        is_sparse=True,
        chosen_tokens=fields.integer("index_topk"),
        qk_nope_head_dim=fields.integer("qk_nope_head_dim"),
        qk_rope_head_dim=fields.integer("qk_rope_head_dim"),
        v_head_dim=fields.integer("v_head_dim"),
        indexer=Indexer(fields.integer("index_head_dim", 128), windows),
        hides_own_heads=True,
        own_backend=NAME,
        side_backends=(WINDOWED,) if windows else (),
    )


def _mtp(fields: Fields, model_type: str, first: int) -> Mtp:
    """Return layers with a window, unless a list of their own says otherwise."""
    counted = one_each(fields, model_type, first, default=1)
    listed = fields.layer_list(MORE_KINDS, WORDS) if fields.has(MORE_KINDS) else None
    kinds = (SLIDING,) * len(counted.layers) if listed is None else listed
    if len(kinds) != len(counted.layers):
        raise fields.contradiction(MORE_KINDS, f"{len(kinds)} for {len(counted.layers)} layers")
    return replace(counted, layers=_built(fields, kinds, first))


def _stated(fields: Fields) -> Attention:
    """Return the heads that vLLM counts, whose latent is that of the sparse layers alone."""
    size = fields.integer("kv_lora_rank") + fields.integer("qk_rope_head_dim")
    return replace(_attention(fields), head_size=size)


register(
    "padded_latent",
    {"dots3_note": ("Dots3NoteForCausalLM",)},
    _layers,
    attention=_attention,
    stated=_stated,
)
READERS["dots3_note"] = _mtp

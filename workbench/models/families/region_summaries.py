"""Step5: full attention chooses tokens by summaries of eight, and keeps those not yet in one apart.

Sources: `Step5Attention`, `Step5SparseSummaryCacheLayer`, `Step5CSATailRing` and `Step5MTP` in
`vllm/models/step5/`, 0.33.
"""

from dataclasses import replace

from workbench.core.draft_parts import Mtp
from workbench.core.model import FULL, INDEX_KEY, Attention, CompressedCache, Layer
from workbench.core.states import Ring
from workbench.models.attention import read_attention
from workbench.models.family import register
from workbench.models.fields import MAX_LAYERS, Fields
from workbench.models.mtp import COUNT, READERS, WORDS

KINDS, WITH_MTP, SECTION = "layer_types", "layer_types_with_mtp", "sparse_config"
OTHER_HEADS = "attention_other_setting"
CHOOSER, SUMMARY, TAIL = "STEP5_DSA", "STEP5_CSA_SUMMARY", "STEP5_CSA_TAIL_RING"
REGION = 8
"""Tokens in a summary."""
CACHES = (
    CompressedCache(
        part=".sparse_summary_cache",
        elements=256,
        stored=INDEX_KEY,
        tokens_per_state=REGION,
        backend=SUMMARY,
        is_plain=True,
    ),
    CompressedCache(
        part=".csa_tail_ring",
        elements=512,
        stored="bfloat16",
        backend=TAIL,
        ring=Ring(REGION - 1, fills_page=True),
    ),
)


def _mtp_count(fields: Fields) -> int:
    return fields.integer(COUNT, 0, name="mtp_layers", minimum=0, maximum=MAX_LAYERS)


def _kinds(fields: Fields) -> tuple[str, ...]:
    """Return the kinds of the model's layers, then those of its MTP layers."""
    key = WITH_MTP if fields.has(WITH_MTP) else KINDS
    listed = fields.layer_list(key, WORDS) if fields.has(key) else None
    if listed is None:
        raise fields.missing(KINDS, "the kinds of layers")
    count = fields.layer_count() + _mtp_count(fields)
    if len(listed) < count:
        raise fields.contradiction(
            key,
            f"{len(listed)} entries, {count} layers with those of MTP",
            vllm_text="Step5 layer_types must include the dense stack and every MTP layer: "
            f"expected at least {count} entries, got {len(listed)}.",
        )
    return listed[:count]


def _built(kinds: tuple[str, ...], first: int, *, chooses: bool) -> tuple[Layer, ...]:
    found: list[Layer] = []
    for number, kind in enumerate(kinds, first):
        found.append(Layer(number=number, kind=kind))
        if kind == FULL and chooses:
            found += (Layer(number=number, kind=FULL, cache=cache) for cache in CACHES)
    return tuple(found)


def _chooses(fields: Fields) -> bool:
    """Return whether full attention is sparse: the file needs the section, which may say no."""
    return fields.child(SECTION).raw("enabled") is not False


def _layers(fields: Fields) -> tuple[Layer, ...]:
    kinds = _kinds(fields)[: fields.layer_count()]
    return _built(kinds, 0, chooses=_chooses(fields))


def _attention(fields: Fields) -> Attention:
    if fields.has(OTHER_HEADS):
        value = fields.raw(OTHER_HEADS)
        raise fields.wrong(OTHER_HEADS, value, "none: layers with other heads are not here")
    side = (CHOOSER, SUMMARY, TAIL) if _chooses(fields) and FULL in _kinds(fields) else ()
    return replace(read_attention(fields), own_backend="FLASH_ATTN", side_backends=side)


def _mtp(fields: Fields, model_type: str, first: int) -> Mtp:
    """Return the layers that follow the model's in the list of kinds."""
    kinds = _kinds(fields)[first:]
    return Mtp(
        model_type=model_type,
        layers=_built(kinds, first, chooses=_chooses(fields)),
        first_index=first,
        predictions=len(kinds),
        is_nested=False,
        chained=len(kinds),
        is_listed=True,
    )


TYPES = {"step5_vl": ("Step5ForConditionalGeneration",), "step5": ("Step5ForCausalLM",)}
register("region_summaries", TYPES, _layers, attention=_attention)
READERS |= dict.fromkeys(TYPES, _mtp)

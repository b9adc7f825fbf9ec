"""Tables of cosines and sines, which vLLM's models keep next to their parameters."""

from collections.abc import Iterator, Mapping
from typing import Any

from workbench.core.architectures import MODEL_REGISTRIES
from workbench.core.model import FULL, SLIDING
from workbench.core.weights import (
    EARLIER,
    EVERY,
    LATER,
    LENGTH,
    MROPE,
    TABLE,
    Part,
    Place,
    rounded,
)
from workbench.models.config_defaults import ORIGINAL
from workbench.models.weights.compressed import ratios
from workbench.models.weights.hybrids import WITHOUT_POSITIONS
from workbench.models.weights.listed_experts import HYBRID as LING
from workbench.models.weights.listed_experts import ling_heads
from workbench.models.weights.older import BERTS, MODERN_BERT
from workbench.models.weights.parts import Config, whole

LOCAL = frozenset({"gemma3", "gemma3_text", "gemma3n_text", "olmo3"})
"""model_types whose sliding layers turn by angles of their own."""


ONLY_LONGER = frozenset({"default", "linear", "llama3", "ntk", "proportional", "mrope"})
"""Kinds of scaling whose angles do not depend on the longest position."""
AS_SERVED = {"minimax_text_01": "float32", "plamo2": None, "plamo3": None}
"""model_types whose table is as long as the longest request -> its dtype, None for the model's."""
OLMO = "olmo_hybrid"
THETA = "rope_theta"
WINDOWED_THETA = "swa_rope_theta"
WINDOWED_THETAS = {MODERN_BERT: "local_rope_theta"}
"""Field of the base of the angles in windowed layers; model_type -> another one."""
SHORTENED = ("qwen3_5", "qwen3_vl", "qwen4_exp")
"""Beginnings of model_types whose table of three axes is not `LENGTHENED_TIMES` as long in 0.33."""
LENGTHENED_TIMES = 4
THREE_AXES = "isaac"
"""The class that has three axes whatever its file says."""
LENGTHS = ("model_max_length", "max_position_embeddings")
LENGTHS_OF = {
    **dict.fromkeys(("cohere", "cohere2"), LENGTHS),
    "dbrx": ("max_seq_len",),
    "gptj": ("n_positions",),
    "step3_text": ("max_position_embedding",),
}
"""model_type -> fields, the first of which says how long the table is; others have the last of
`LENGTHS`."""
SMALL_BAICHUAN, ROTATED_BAICHUAN = "BaiChuanForCausalLM", 4096
"""The class of Baichuan that always rotates, and the hidden size of the others that do."""
DEFAULT_LENGTHS = {"dbrx": 2048, "falcon": 2048}
"""model_type -> positions where the file has none and the configuration class fewer than 8,192."""
SHARES = {
    **dict.fromkeys(("chatglm", "glm4", "glm4_moe"), 0.5),
    **dict.fromkeys(("qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"), 0.25),
}
"""model_type -> the share of a head that it rotates unless the file says another one."""
FLASHINFER_SIZES = frozenset({64, 128, 256, 512})
LIBRARY, HALF = "transformers", "half"
"""Module of classes that the Transformers library runs, and how the names of the frequencies begin
that it keeps on every stage, instead of tables."""


def positions(config: Config) -> list[Part]:
    """Return the tables of rotary embeddings: one for all layers with the same parameters."""
    attention = config.model.attention
    if config.kind == LING:
        return _ling(config)
    if attention is None or not _rotates(config) or attention.qk_rope_head_dim == 0:
        return []
    if attention.is_compressed:
        return _compressed(config)
    own = config.size("qk_rope_head_dim", default=0)  # heads that are cached whole may have it, too
    size = (attention.qk_rope_head_dim if attention.use_mla else own) or attention.head_size
    settings = config.raw("rope_parameters") or config.raw("rope_scaling") or {}
    absent = {FULL, SLIDING} - set(config.raw("layer_types") or (FULL, SLIDING))
    nested = {
        key: one for key, one in settings.items() if isinstance(one, Mapping) and key not in absent
    }
    tables = [_table(config, _of_kind(config, key, size), one) for key, one in nested.items()]
    tables = tables or [_table(config, size, settings)]
    if not nested and config.kind in LOCAL and not _same_angles(config, settings):
        tables.append(_table(config, size, {}))
    if isinstance(config.raw(THETA), list):
        tables = _by_layer(config, size)
    theta = config.raw(WINDOWED_THETAS.get(config.kind, WINDOWED_THETA))
    if not nested and theta not in (None, config.raw(THETA)):
        tables.append(_table(config, size, {THETA: theta}))
    # The indexer pairs other elements, and so has a table of its own.
    if attention.indexer and not config.flag("indexer_rope_interleave"):
        tables *= 2
    return _of_releases(config, tables)


def _ling(config: Config) -> list[Part]:
    """Return the tables of Ling 2.5: of lightning attention, and of latents, which turn whole."""
    heads, numbers = ling_heads(config).items(), range(config.model.num_hidden_layers)
    settings = config.raw("rope_parameters") or config.raw("rope_scaling") or {}
    lightning = [_table(config, one, settings)._replace(kind=kind) for kind, one in heads]
    size = config.size("qk_rope_head_dim", default=64)
    latents = _table(config, size, {**settings, "partial_rotary_factor": 1.0})
    return [
        *lightning * any(map(config.has_state, numbers)),
        *[latents] * any(map(config.attends, numbers)),
    ]


def _by_layer(config: Config, size: int) -> list[Part]:
    """Return the tables of a file that lists angles and shares for every layer."""
    kinds, only = config.raw("layer_types", ()), config.raw("yarn_only_types")
    shares = config.raw("partial_rotary_factors") or ()
    found: dict[Part, None] = {}
    for number, theta in zip(
        range(config.model.num_hidden_layers), config.raw(THETA), strict=False
    ):
        is_scaled = not only or kinds[number] in only
        settings = {**(config.mapping("rope_scaling") if is_scaled else {}), THETA: theta}
        settings["partial_rotary_factor"] = shares[number] if shares else 1.0
        found[_table(config, size, settings)] = None
    return list(found)


def of_library(config: Config, architecture: str = "") -> tuple[bool, bool]:
    """Return whether the Transformers library runs the class, in the oldest and newest release.

    architecture: that of the whole file; else it is the class of the layers.
    """
    name = architecture or config.model.layer_class
    oldest, *_, newest = [one.served.get(name) == LIBRARY for one in MODEL_REGISTRIES.values()]
    return oldest, newest


def _of_releases(config: Config, tables: list[Part]) -> list[Part]:
    """Return the tables of a release with a class of its own, and what the library has instead."""
    oldest, newest = of_library(config)
    if not newest:
        return tables
    # the frequencies, and those before any scaling (inv_freq and original_inv_freq)
    kept = whole("", 2, dtype="float32", kind="" if oldest else LATER)
    return [
        *(one._replace(kind=EARLIER) for one in tables if not oldest),
        *(kept._replace(name=f"{HALF} {one.name}", inputs=one.inputs // 2) for one in tables),
    ]


def placed(config: Config) -> Iterator[tuple[Part, Place]]:
    """Yield every table with the pipeline stages that have it: those with a layer that reads it."""
    tables, attention = positions(config), config.model.attention
    numbers = range(config.model.num_hidden_layers)
    # not all attention has a cache
    stateless = (one for one in numbers if config.attends(one) or not config.has_state(one))
    turning = frozenset(stateless)
    places: list[Place] = [EVERY if one.name.startswith(HALF) else turning for one in tables]
    if attention is not None and attention.is_compressed:
        listed = [bool(ratio) for ratio in ratios(config)]
        places = [
            frozenset(number for number, one in enumerate(listed) if one is base)
            for base in sorted(set(listed))
        ]
    elif config.kind == LING:
        latents = [frozenset(filter(config.attends, numbers))] * any(map(config.attends, numbers))
        lightning = frozenset(filter(config.has_state, numbers))
        places = [*[lightning] * (len(tables) - len(latents)), *latents]
    yield from zip(tables, places, strict=True)


def _of_kind(config: Config, kind: str, size: int) -> int:
    """Return the size of the heads of one kind of layers; Gemma 4 has two."""
    is_smaller = config.attention.has_mixed_head_sizes and kind != FULL
    return config.size("head_dim", default=size) if is_smaller else size


def _compressed(config: Config) -> list[Part]:
    """Return the tables of DeepSeek-V4: of compressed layers, and of the others."""
    bases = sorted({bool(ratio) for ratio in ratios(config)})
    settings, size = config.mapping("rope_scaling"), config.size("qk_rope_head_dim")
    theta = config.raw("compress_rope_theta")
    angles = [{**settings, THETA: theta} if base else settings for base in bases]
    return [_table(config, size, rope)._replace(dtype="float32") for rope in angles]


def _same_angles(config: Config, settings: Mapping[str, Any]) -> bool:
    """Return whether sliding layers turn as the others do: one table serves both."""
    if settings or config.kind == "olmo3":
        return False
    local = config.raw("rope_local_base_freq", 10_000)
    return bool(config.raw("rope_theta", 1_000_000) == local)


def _rotates(config: Config) -> bool:
    kind = config.kind
    if kind == "granitemoehybrid":
        return config.flag("position_embedding_type=rope")
    if kind == "baichuan" and config.model.layer_class != SMALL_BAICHUAN:
        return config.hidden == ROTATED_BAICHUAN
    return kind not in {*WITHOUT_POSITIONS, *BERTS} and (
        kind != "zamba2" or config.flag("use_mem_rope")
    )


def _table(config: Config, size: int, rope: Mapping[str, Any]) -> Part:
    names = LENGTHS_OF.get(config.kind, LENGTHS[1:])
    length = DEFAULT_LENGTHS.get(config.kind, 8192)
    longest = config.size(*names, default=length)
    scaling = rope.get("rope_type", rope.get("type", "default"))
    original = rope.get(ORIGINAL) or config.raw(ORIGINAL, longest)
    factor = rope.get("factor") or 1
    dtype = None
    if scaling in {"yarn", "deepseek_yarn"}:
        longest = int(original * factor)
        # The kernel of FlashInfer, which has these sizes, reads what is not rounded.
        is_precise = config.attention.use_mla and size in FLASHINFER_SIZES
        dtype = "float32" if is_precise or config.kind == "gpt_oss" else None
    elif scaling == "linear":
        longest = int(longest * factor)
    elif scaling == "longrope":
        longest += int(original)
    usual = SHARES.get(config.kind, 1.0)
    share = rope.get("partial_rotary_factor", config.raw("partial_rotary_factor", usual))
    share = 1.0 if scaling == "proportional" else share  # zeros take the place of the others
    width = config.raw("rotary_dim") or config.raw("attn_rotary_emb") or int(size * share)
    kind = LATER if config.kind == OLMO else ""
    if "mrope_section" in rope or config.fields.top.get("model_type") == THREE_AXES:
        is_lengthened = not config.kind.startswith(SHORTENED)
        kind = kind if is_lengthened else MROPE
        longest *= LENGTHENED_TIMES if is_lengthened else 1
    # One table serves all layers with the same angles.
    angles = {THETA: config.raw(THETA), **rope}
    numbers = {key: float(one) for key, one in angles.items() if isinstance(one, int | float)}
    words = sorted(f"{key}={one}" for key, one in {**angles, **numbers}.items() if one is not None)
    name = " ".join([TABLE if scaling in ONLY_LONGER else f"scaled {TABLE}", *words])
    if config.kind in AS_SERVED:
        kind, longest, dtype = LENGTH, 1, AS_SERVED[config.kind]
    return whole(name, longest, inputs=rounded(width, 2), dtype=dtype, kind=kind)

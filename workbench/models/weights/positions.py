"""Tables of cosines and sines, which vLLM's models keep next to their parameters."""

from collections.abc import Mapping
from typing import Any

from workbench.core.architectures import MODEL_REGISTRIES
from workbench.core.arithmetic import round_up
from workbench.core.model import FULL, SLIDING, SSM
from workbench.core.weights import (
    EARLIER,
    EVERY,
    EXACT,
    LATER,
    LENGTH,
    MROPE,
    ROUNDED,
    TABLE,
    Part,
    Place,
)
from workbench.models.config_defaults import ORIGINAL
from workbench.models.families.compressed import compress_ratios
from workbench.models.rope import RENAMED
from workbench.models.weights.hybrids import WITHOUT_POSITIONS
from workbench.models.weights.listed_experts import HYBRID as LING
from workbench.models.weights.listed_experts import ling_heads
from workbench.models.weights.minimax_m3 import M3
from workbench.models.weights.older import BERTS, MODERN_BERT
from workbench.models.weights.parts import Config, whole
from workbench.models.weights.rotated_encoders import NOMIC, is_rotated
from workbench.models.weights.step5 import full_layers, sparse_indexer

LOCAL = frozenset({"gemma3", "gemma3_text", "gemma3n_text", "olmo3"})
"""model_types whose sliding layers turn by angles of their own."""


ONLY_LONGER = frozenset({"default", "linear", "llama3", "ntk", "proportional", "mrope"})
"""Kinds of scaling whose angles do not depend on the longest position."""
AS_SERVED = {"minimax_text_01": "float32", "plamo2": None, "plamo3": None, NOMIC: None}
"""model_types whose table is as long as the longest request -> its dtype, None for the model's."""
PRECISE = frozenset({"beam", "domyn_edge", "pangu_ultra_moe"})
"""model_types whose table is in float32."""
OWN_SIZES = ("qk_rope_head_dim", "qk_rope_dim", "rope_head_dim")
OLMO = "olmo_hybrid"
THETA = "rope_theta"
WINDOWED_THETA = "swa_rope_theta"
WINDOWED_SIZE = "swa_head_dim"
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
    "chatglm": ("seq_length",),
    "dbrx": ("max_seq_len",),
    "gptj": ("n_positions",),
    "step3_text": ("max_position_embedding",),
}
"""model_type -> fields, the first of which says how long the table is; others have the last of
`LENGTHS`."""
SMALL_BAICHUAN, ROTATED_BAICHUAN = "BaiChuanForCausalLM", 4096
"""The class of Baichuan that always rotates, and the hidden size of the others that do."""
DEFAULT_LENGTHS = {"chatglm": 2048, "dbrx": 2048, "falcon": 2048}
"""model_type -> positions where the file has none and the configuration class fewer than 8,192."""
NEOX, SHARE_OF_NEOX = "gpt_neox", "rotary_pct"
"""The class that reads the share in a field of its own, and that field."""
SHARES = {
    **dict.fromkeys(("chatglm", "glm", "glm4", "glm4_moe", "glm4v_moe_text", "moondream3"), 0.5),
    **dict.fromkeys(("bamba", "fuyu", "nemotron", "persimmon", "phi"), 0.5),
    **dict.fromkeys(("qwen3_5_moe_text", "qwen3_5_text", "qwen3_next", "stablelm"), 0.25),
    NEOX: 0.25,
}
"""model_type -> the share of a head that it rotates unless the file says another one."""
FLASHINFER_SIZES = frozenset({64, 128, 256, 512})
LIBRARY = "transformers"
"""Module of classes that the Transformers library runs: it keeps frequencies on every stage, and no
tables."""


Placed = tuple[Part, Place]


def positions(config: Config) -> list[Part]:
    """Return the tables of rotary embeddings."""
    return [table for table, _ in placed(config)]


def placed(config: Config) -> list[Placed]:
    """Return the tables, one for all layers with the same parameters, each with these layers."""
    # DeepseekScalingRotaryEmbedding: the kernel of FlashInfer reads what is not rounded
    return [
        (one, place)
        for table, place in _placed(config)
        for one in (table, *[table._replace(dtype=None, kind=ROUNDED)] * (table.kind == EXACT))
    ]


def _placed(config: Config) -> list[Placed]:
    if config.kind == LING:
        return _ling(config)
    if config.model.attention is None or not _rotates(config):
        return []
    attention = config.attention
    if attention.qk_rope_head_dim == 0:
        return []
    if attention.is_compressed:
        return _compressed(config)
    own = config.size(*OWN_SIZES, default=0)  # heads that are cached whole may have it, too
    size = (attention.qk_rope_head_dim if attention.use_mla else own) or attention.head_size
    settings = config.raw("rope_parameters") or config.raw("rope_scaling") or {}
    absent = {FULL, SLIDING} - set(config.raw("layer_types") or (FULL, SLIDING))
    angles = {
        key: one for key, one in settings.items() if isinstance(one, Mapping) and key not in absent
    }
    theta = config.raw(WINDOWED_THETAS.get(config.kind, WINDOWED_THETA))
    is_own = theta is not None and config.size(WINDOWED_SIZE, default=size) != size
    if not angles and (is_own or theta not in (None, config.raw(THETA))):
        angles = {FULL: settings, SLIDING: {THETA: theta}}
    elif not angles and config.kind in LOCAL and not _same_angles(config, settings):
        angles = {FULL: settings, SLIDING: {}}
    tables = [
        (_table(config, _of_kind(config, key, size), one), _turning(config, key))
        for key, one in (angles or {"": settings}).items()
        if key not in absent
    ]
    tables = [(one, place) for one, place in tables if place or not angles]  # layers make them
    if isinstance(config.raw(THETA), list):
        tables = _by_layer(config, size)
    if (sparse := sparse_indexer(config)) is not None and config.kind == "step5":
        small = _table(config, int(sparse["sparse_indexer_rope_dim"]), {})
        tables.append((small._replace(name=f"sparse {small.name}"), full_layers(config)))
    # The indexer pairs other elements, and so has a table of its own.
    if attention.indexer and not config.flag("indexer_rope_interleave"):
        tables *= 2
    return _of_releases(config, tables)


def _turning(config: Config, kind: str) -> Place:
    """Return the layers of a kind, or all that attend, those without a cache among them."""
    listed = {n: config.kinds.get(n, {kind}) for n in range(config.model.num_hidden_layers)}
    others = {SSM} if kind != FULL else {SSM, SLIDING}
    return frozenset(
        n for n, kinds in listed.items() if (kind in kinds if kind == SLIDING else kinds - others)
    )


def _ling(config: Config) -> list[Placed]:
    """Return the tables of Ling 2.5: of lightning attention, and of latents, which turn whole."""
    heads, numbers = ling_heads(config).items(), range(config.model.num_hidden_layers)
    settings = config.raw("rope_parameters") or config.raw("rope_scaling") or {}
    lightning = [_table(config, one, settings)._replace(kind=kind) for kind, one in heads]
    size = config.size("qk_rope_head_dim", default=64)
    latents = _table(config, size, {**settings, "partial_rotary_factor": 1.0})
    linear, attending = (
        frozenset(filter(test, numbers)) for test in (config.has_state, config.attends)
    )
    return [
        *[(one, linear) for one in lightning if linear],
        *[(latents, attending)] * bool(attending),
    ]


def _by_layer(config: Config, size: int) -> list[Placed]:
    """Return the tables of a file that lists angles and shares for every layer."""
    kinds, only = config.raw("layer_types", ()), config.raw("yarn_only_types")
    shares = config.raw("partial_rotary_factors") or ()
    found: dict[Part, set[int]] = {}
    for number, theta in zip(
        range(config.model.num_hidden_layers), config.raw(THETA), strict=False
    ):
        is_scaled = not only or kinds[number] in only
        settings = {**(config.mapping("rope_scaling") if is_scaled else {}), THETA: theta}
        settings["partial_rotary_factor"] = shares[number] if shares else 1.0
        found.setdefault(_table(config, size, settings), set()).add(number)
    return [(table, frozenset(numbers)) for table, numbers in found.items()]


def of_library(config: Config, architecture: str = "") -> tuple[bool, bool]:
    """Return whether the Transformers library runs the class, in the oldest and newest release.

    architecture: that of the whole file; else it is the class of the layers.
    """
    names = (architecture or config.model.layer_class, config.model.architecture)
    oldest, *_, newest = [
        any(one.served.get(name) == LIBRARY for name in names) for one in MODEL_REGISTRIES.values()
    ]
    return oldest, newest


def _of_releases(config: Config, tables: list[Placed]) -> list[Placed]:
    """Return the tables of a release with a class of its own, and what the library has instead."""
    oldest, newest = of_library(config)
    if not newest:
        return tables
    # the frequencies, and those before any scaling (inv_freq and original_inv_freq)
    kept = whole("", 2, dtype="float32", kind="" if oldest else LATER)
    halves = (kept._replace(name=f"half {one.name}", inputs=one.inputs // 2) for one, _ in tables)
    return [
        *((one._replace(kind=EARLIER), place) for one, place in tables if not oldest),
        *((one, EVERY) for one in halves),
    ]


def _of_kind(config: Config, kind: str, size: int) -> int:
    """Return the size of the heads of one kind of layers; Gemma 4 and MiMo-V2 have two."""
    if kind != SLIDING:
        return size
    is_smaller = config.attention.has_mixed_head_sizes
    names = (WINDOWED_SIZE, *["head_dim"] * is_smaller)
    return config.size(*names, default=size)


def _compressed(config: Config) -> list[Placed]:
    """Return the tables of DeepSeek-V4: of compressed layers, and of the others."""
    listed = [bool(ratio) for ratio in compress_ratios(config.fields)]
    by_kind = config.mapping("rope_parameters").get("compress")  # by transformers 5
    stated, size = by_kind or config.mapping("rope_scaling"), config.size("qk_rope_head_dim")
    # build_deepseek_v4_rope names the size that turns, whatever the file has
    settings = {**stated, "partial_rotary_factor": 1.0}
    # layers that compress nothing are not lengthened, from 0.33 on
    alone = {"rope_type": "yarn", "factor": 1, ORIGINAL: config.raw("max_position_embeddings")}
    of_kind = {
        True: [("", {**settings, THETA: config.raw("compress_rope_theta")})],
        False: [(EARLIER, settings), (LATER, {**settings, **alone})],
    }
    return [
        (
            _table(config, size, angles)._replace(dtype="float32", kind=kind),
            frozenset(number for number, one in enumerate(listed) if one is base),
        )
        for base in sorted(set(listed))
        for kind, angles in of_kind[base]
    ]


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
    if kind == "cohere_compass_text" and not config.mapping("rope_parameters"):
        return False
    if kind == "falcon" and config.flag("alibi"):
        return False
    if kind in BERTS:
        return is_rotated(config)
    return kind not in WITHOUT_POSITIONS and (kind != "zamba2" or config.flag("use_mem_rope"))


def _table(config: Config, size: int, rope: Mapping[str, Any]) -> Part:
    names = LENGTHS_OF.get(config.kind, LENGTHS[1:])
    length = DEFAULT_LENGTHS.get(config.kind, 8192)
    longest = config.size(*names, default=length)
    scaling = rope.get("rope_type", rope.get("type", "default"))
    scaling = RENAMED.get(scaling, scaling)
    original = rope.get(ORIGINAL) or config.raw(ORIGINAL, longest)
    factor = rope.get("factor") or 1
    dtype, is_exact = "float32" if config.kind in PRECISE else None, False
    if scaling in {"yarn", "deepseek_yarn"}:
        longest = int(original * factor)
        is_exact = config.attention.use_mla and size in FLASHINFER_SIZES
        dtype = "float32" if is_exact or config.kind == "gpt_oss" else None
    elif scaling == "linear":
        longest = int(longest * factor)
    elif scaling == "longrope":
        longest += int(original)
    usual = SHARES.get(config.kind, 1.0)
    usual = config.raw(SHARE_OF_NEOX, usual) if config.kind == NEOX else usual
    share = rope.get("partial_rotary_factor", config.raw("partial_rotary_factor", usual))
    share = 1.0 if scaling == "proportional" else share  # zeros take the place of the others
    stated = None if config.kind in M3 else config.raw("rotary_dim")
    width = stated or config.raw("attn_rotary_emb") or int(size * share)
    kind = LATER if config.kind == OLMO else EXACT if is_exact else ""
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
    return whole(name, longest, inputs=round_up(width, 2), dtype=dtype, kind=kind)

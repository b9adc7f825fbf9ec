"""The weights of a config.json: all layers, both vocabularies, tables of positions, towers."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from workbench.core.architectures import is_run_by_transformers
from workbench.core.built import with_own_layers
from workbench.core.errors import Refused
from workbench.core.model import Model
from workbench.core.pooling import newest_base, pools
from workbench.core.versions import RULE_SETS
from workbench.core.weights import (
    EARLIER,
    EMBEDDING,
    EVERY,
    EVERY_TOWER,
    FIRST,
    FOR_HEADS,
    LAST,
    LATER,
    OF_TARGET,
    TOWER,
    Part,
    Weights,
)
from workbench.models.built_heads import built_attentions
from workbench.models.checkpoint import read_checkpoint
from workbench.models.fields import Fields
from workbench.models.weights import ends, older
from workbench.models.weights.collected import Collected
from workbench.models.weights.decoders import LAYERS, Moe
from workbench.models.weights.drafters import drafted
from workbench.models.weights.hybrids import HYBRIDS
from workbench.models.weights.images import largest_image
from workbench.models.weights.kinds import SAME_CLASS, layer_by_release, placed_by_release
from workbench.models.weights.merged import merged_parts
from workbench.models.weights.newer import ENDS, NEWER, REST, STARTS
from workbench.models.weights.parts import (
    Config,
    attention,
    column,
    latent,
    mlp,
    norms,
    row,
    vocabulary,
    whole,
)
from workbench.models.weights.pooled import scores
from workbench.models.weights.positions import of_library, placed, positions
from workbench.models.weights.scheme import read_scheme
from workbench.models.weights.stored import Unknown
from workbench.models.weights.tied import OF_TEXT, TIE, TIED_BY_WRAPPER, says_tied
from workbench.models.weights.vision import vision

UNREADABLE = (Unknown, Refused, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""A field that only weights read has another type or value than vLLM could use."""
EXPERTS_PER_TOKEN = (
    *("num_experts_per_tok", "experts_per_token", "moe_k", "moe_topk", "top_k_experts"),
)
SCALES = ".attn"
OUTSIDE = ("image_newline", "own_projector", "time_embedding", "vision_embedder")
"""Beginnings of the names of what classes build outside of the tower, on every pipeline stage."""
ROWS = {"chatglm": "padded_vocab_size", "molmo": "embedding_size"}
"""model_type -> field of the rows of its vocabularies, where a file has it."""
INNER = "intermediate_size"
EXPERTS = Moe(shared=("n_shared_experts", "num_shared_experts"))
"""As most models have them."""
SHARED = "shared_experts"
HALVED = frozenset({"molmo", "qwen"})
"""model_types whose `intermediate_size` counts the gate as well."""


def read_weights(
    fields: Fields, model: Model, folder: Path | None = None, part: str = ""
) -> Weights:
    """Return the parameters that `fields` describe, or what keeps them from being known.

    folder: that of config.json, where the checkpoint is. part: see `UnreadWeights.of`.
    """
    # The size of the target's checkpoint says nothing about what drafts in it.
    checkpoint = None if part in OF_TARGET else read_checkpoint(folder)
    held = 0 if checkpoint is None else checkpoint.total_bytes
    try:
        config = Config(fields, model)
        found = Collected(read_scheme(fields), merged_parts(config))
        weights = _drafted(config, found, part) if part else _whole(config, found)
        split = [one for known in found.split_layers.values() for one in known]
        split += found.split_experts.values()
        weights = weights._replace(split_layers=tuple(split))
    except UNREADABLE as error:
        unknown = str(error) or type(error).__name__
        rows, sketch = model.vocab_size or 0, _sketch(fields, model)
        weights = Weights(unknown=unknown, vocabulary=rows, sketch=sketch)
    has_vocabulary = checkpoint is None or checkpoint.has_vocabulary
    return weights._replace(
        checkpoint_bytes=held,
        has_vocabulary=has_vocabulary,
        is_tied=all(says_tied(fields, model)),
        expert_score=_expert_score(fields),
    )


def _per_token(config: Config) -> int:
    """Return the experts that a token takes, the most where a list has them by layer."""
    found = next(filter(None, map(config.raw, EXPERTS_PER_TOKEN)), 0)
    return max(found) if isinstance(found, list) else int(found)


def _sketch(fields: Fields, model: Model) -> tuple[Part, ...]:
    """Return attention, and an MLP or experts, as any decoder has them; none of other attention.

    Names are those of Llama, so a checkpoint of another class may exclude what it keeps plain.
    """
    if model.attention is None or model.is_hybrid:
        return ()
    try:
        config, found = Config(fields, model), Collected(read_scheme(fields))
        for number in (0, model.num_hidden_layers - 1):
            parts = latent(config, number) if model.attention.use_mla else attention(config)
            if model.num_experts and EXPERTS.has(config, number):
                parts += EXPERTS.parts(config, number)
            elif isinstance(fields.raw(INNER), int):
                parts += mlp(config, "mlp", config.size(INNER) // (1 + (config.kind in HALVED)))
            parts += _streams(config) if fields.has("altup_num_inputs") else []
            if is_run_by_transformers(model.layer_class):  # its plan of 0.23 keeps them whole
                parts = [_later(one) if SHARED in one.name else one for one in parts]
            found.add(f"model.layers.{number}.", parts, number)
    except UNREADABLE:
        return ()
    return tuple(found.places)


def _later(part: Part) -> Part:
    return part._replace(kind=LATER)


def _streams(config: Config) -> list[Part]:
    """Return what Gemma 3n's layers have in addition: a mix of streams, and a path of low rank."""
    streams, rank = config.size("altup_num_inputs"), config.size("laurel_rank", default=64)
    return [
        whole("altup.prediction_coefs", streams**2, inputs=streams, is_linear=True),
        column("laurel.linear_left", rank, inputs=config.hidden),
        row("laurel.linear_right", rank, config.hidden),
    ]


def _expert_score(fields: Fields) -> str:
    # experts in several groups are chosen otherwise (GroupedTopKRouter)
    groups = max(
        1 if fields.raw(key) is False else fields.integer(key, 1, minimum=0)  # Hunyuan-A13B
        for key in ("n_group", "topk_group")
    )
    score = fields.raw("scoring_func")
    return score if groups <= 1 and isinstance(score, str) else ""


def _tied(config: Config) -> tuple[bool, bool]:
    """Return whether earlier and later releases have one vocabulary for the input and the head."""
    says, top = says_tied(config.fields, config.model), config.fields.top
    is_always = SAME_CLASS.get(config.kind, config.kind) in ends.ALWAYS_TIED
    earlier, later = (one or is_always for one in says)
    # VllmConfig.with_hf_config gives the text the wrapper's value; 0.33 takes it back where the
    # checkpoint, of those that are published, has a head (maybe_untie_word_embeddings).
    by_wrapper = top.get("model_type") in TIED_BY_WRAPPER and top.get(TIE) is None
    by_wrapper &= config.kind not in ends.HEAD_APART | OF_TEXT
    return by_wrapper or (earlier and config.kind not in ends.APART_EARLIER), later


def _head(
    config: Config, found: Collected, rows: int, width: int, tied: tuple[bool, bool]
) -> list[Part]:
    """Return the head of the vocabulary, or what a tied one has of its own: its scales."""
    kind, name = config.kind, ends.HEAD_NAMES.get(config.kind, ends.HEAD)
    stored = None if name is None else found.scheme.format_of_head(name)
    dtype = "float32" if kind in ends.FLOAT_HEAD else None
    head, parts = vocabulary(ends.HEAD, rows, width)._replace(dtype=dtype), []
    if not all(tied):
        release = "" if not any(tied) else LATER if tied[0] else EARLIER
        bias = vocabulary(ends.HEAD, rows, 1)
        biases = (bias._replace(kind=one) for one in ends.HEAD_BIAS.get(kind, ()))
        parts = [head._replace(stored=stored, kind=release), *biases]
    is_kept = kind not in ends.HEADLESS and tied[1]
    if is_kept and stored is not None and not stored.is_integer:
        # ParallelLMHead.tie_weights of 0.33 replaces the weight alone
        parts.append(head._replace(stored=stored._replace(bits=0), kind=LATER))
    return parts


def _drafted(config: Config, found: Collected, part: str) -> Weights:
    drafter = drafted(config, part, config.kind)
    for prefix, parts in drafter.parts.items():
        found.add(prefix, parts)
    found.add("", positions(config))
    return Weights(parts=found.counts, shared=drafter.shared)


def _embed(config: Config, found: Collected, embedding: Part, tied: tuple[bool, bool]) -> None:
    """Count the embedding where it is used: as the head, too, in releases that tie it."""
    is_every = config.kind in ends.EVERY_END | ends.EVERY_EMBEDDING
    if is_every or all(tied) or not any(tied):
        ends.at_end(config, found, [embedding], is_every, FIRST, *(LAST,) * all(tied))
        return
    for kind, is_tied in zip((EARLIER, LATER), tied, strict=True):
        found.add("", [embedding._replace(kind=kind)], FIRST, *(LAST,) * is_tied)


def _see(config: Config, found: Collected, tower: Iterable[Part]) -> None:
    """Count a tower on the first stage; the library has it on all, as 0.23 has any."""
    is_whole, pooling = of_library(config, config.model.architecture)[1], config.model.pooling
    newest = newest_base(pooling.name) if pools(pooling) and pooling else None
    if newest not in {None, config.model.architecture}:  # it builds the text alone
        tower = [one._replace(kind=EARLIER) for one in tower if one.kind != LATER]
    for one in tower:
        is_everywhere = is_whole or one.name.startswith(OUTSIDE)
        found.add("", [one], EVERY_TOWER if is_everywhere else TOWER)


def _as_counted(config: Config, parts: list[Part]) -> list[Part]:
    """Return the parts of a layer; 0.23 keeps the scales of the library's layers out of it."""
    # attention_instances of transformers/base.py
    if not of_library(config)[0]:
        return parts
    return [one._replace(kind=LATER) if one.name.endswith(SCALES) else one for one in parts]


def _oldest(config: Config) -> Config | None:
    """Return what the oldest release builds; None where its heads and layers are the newest's."""
    earlier, later = built_attentions(config.model)
    model = with_own_layers(config.model, next(iter(RULE_SETS.values())))
    same = earlier == later and model.layers == config.model.layers
    return None if same else Config(config.fields, model, earlier)


def _whole(config: Config, found: Collected) -> Weights:
    kind, model = config.kind, config.model
    layer = LAYERS.get(kind) or HYBRIDS.get(kind) or NEWER.get(kind)
    if layer is None:
        raise Unknown(f"the weights of {kind} are not described")
    oldest = _oldest(config)
    for number in range(model.num_hidden_layers):
        parts = layer(config, number)
        if oldest is not None:
            parts = layer_by_release(layer(oldest, number), parts)
        found.add(f"model.layers.{number}.", _as_counted(config, parts), number)
    found.add("", REST[kind](config) if kind in REST else (), EVERY)
    rows = config.size(ROWS.get(kind, "vocab_size"), "vocab_size")
    width = older.embedding_width(config)
    embedding = vocabulary(EMBEDDING, rows, width)
    if kind in ends.WHOLE_EMBEDDING:
        embedding = whole(EMBEDDING, rows, inputs=width)
    tied = _tied(config)
    _embed(config, found, embedding, tied)
    if kind in ends.EMBEDS_FOR_HEADS and not all(tied):
        found.add("", [embedding._replace(kind=FOR_HEADS)], LAST)
    pooled: tuple[Part, ...] | None = ()
    if pools(model.pooling):
        pooled = scores(config)
        found.add("", pooled or (), EVERY)
    else:
        is_every = kind in ends.EVERY_END | ends.EVERY_HEAD
        ends.at_end(config, found, _head(config, found, rows, width, tied), is_every, LAST)
    tower = vision(config)
    # the layers are known without it, and what ranks and kernels do with them
    unknown = ""
    if tower is None:
        unknown = f"the vision tower of {model.architecture} is not described"
    elif pooled is None:
        name = model.pooling and model.pooling.name
        unknown = f"the last layer of {name} is not described"
    has_norm = kind not in ends.WITHOUT_NORM and config.flag(ends.NORM_OF_OPT, default=True)
    last = norms(config, has_norm, bias=kind in ends.NORM_BIAS)
    ends.at_end(config, found, last, kind in ends.EVERY_END, LAST)
    found.add("", STARTS[kind](config) if kind in STARTS else (), FIRST)
    found.add("", ENDS[kind](config) if kind in ENDS else (), LAST)
    tables = placed(config) if oldest is None else placed_by_release(placed(oldest), placed(config))
    for table, place in tables:
        found.add("", [table], place)
    _see(config, found, tower or ())
    return Weights(
        parts=found.counts,
        unknown=unknown,
        vocabulary=vocabulary("", rows, 1).outputs[0][0],
        has_tower=bool(tower),
        image=largest_image(config, tower),
        # transformers 5 writes the defaults of experts for models that have none.
        experts_per_token=_per_token(config) if any(one.experts > 1 for one in found.places) else 0,
        places=tuple(tuple(chain(*times)) for times in found.places.values()),
    )

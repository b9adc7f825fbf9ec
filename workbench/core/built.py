"""A model as a release builds it: what its config.json alone does not decide."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from workbench.core.model import FULL, SLIDING, SSM, Attention, Layer, Model
from workbench.core.online import as_loaded, as_stored
from workbench.core.rule_set import RuleSet
from workbench.core.weights import UnreadWeights

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

CLEARS_WINDOW = frozenset({"laguna", "mimo_v2", "rnj1", "step3p5"})
"""Modules that keep the window of a file from layers whose kind no list names (0.23 and 0.33), or
whose list has words of their own."""
INTERVAL = "full_attention_interval"
"""Origin of the layers of a hybrid whose file lists no kinds."""
PLAIN_DECODER = "decoder"
"""The family of everything without a reader of its own."""
TRANSFORMERS = "transformers"
"""The module of vLLM that runs classes of the Transformers library."""
ANY_MODULE = ""
"""Of `Model.build_errors`: whichever module has the class."""
PROPOSER = "llm_base_proposer"
"""The module of the V1 runner that builds what drafts next to a model."""


def as_built(model: Model, settings: Settings, rules: RuleSet) -> Model:
    """Return the model as a release builds it, without its drafter where the settings have none."""
    # A model that was read with a drafter may be resolved without it, as a change of the scenario.
    model = as_stored(model)
    if model.drafter is not None:
        drafter = _with_own_heads(model.drafter, rules) if settings.draft_model else None
        model = model if drafter is model.drafter else replace(model, drafter=drafter)
    model = _with_own_heads(model, rules)
    model = with_own_layers(model, rules)
    if rules.keeps_window:
        model = _with_window(model, model.unread_weights, rules)
    if model.stated is not None and not (model.stated.head_size or rules.counts_empty_heads):
        model = replace(model, stated=None)
    if model.architecture in rules.model_registry.run_by_transformers:
        if not rules.model_registry.library_knows_parts:
            model = _as_older_library(model, model.unread_weights)
        model = _as_transformers_does(model, model.unread_weights)
    if model.architecture in rules.lists_blocks:
        model = _with_listed_blocks(model, model.unread_weights)
    return as_loaded(model, settings.quantization, rules.quantization.online_methods)


def module_of_layers(model: Model, rules: RuleSet) -> str:
    """Return vLLM's module with the class of the layers, TRANSFORMERS where the library has it."""
    served = rules.model_registry.served
    return served.get(model.layer_class) or served.get(model.architecture, TRANSFORMERS)


def with_own_layers(model: Model, rules: RuleSet) -> Model:
    """Return the model with the kinds of layers that a release has where no list names them."""
    if model.family in rules.ignores_interval and INTERVAL in model.origins:
        return _every_fourth(model, model.unread_weights)
    return model


def built_kv_heads(own: Attention, module: str, rules: RuleSet) -> int:
    """Return the KV heads that a module gives its attention layers."""
    if module not in rules.built_kv_heads:
        return own.num_kv_heads
    return rules.built_kv_heads[module] or own.num_heads


def _with_own_heads(model: Model, rules: RuleSet) -> Model:
    """Return the model with heads of another size or number where the release builds such."""
    size, own = model.derived_head_size, model.attention
    module = rules.model_registry.served.get(model.layer_class, "")
    # Models are equal whatever their weights are.
    if own is not None and (heads := built_kv_heads(own, module, rules)) != own.num_kv_heads:
        model = _with_kv_heads(model, model.unread_weights, heads)
    return model if size is None else _with_heads(model, model.unread_weights, size, rules)


@lru_cache(maxsize=64)
def _with_kv_heads(model: Model, _weights: UnreadWeights, heads: int) -> Model:
    own = model.attention
    assert own is not None
    built = replace(own, num_kv_heads=heads)
    return replace(model, attention=built, stated=model.stated or own)


@lru_cache(maxsize=256)
def _with_heads(model: Model, _weights: UnreadWeights, size: int, rules: RuleSet) -> Model:
    served = rules.model_registry.served
    if model.stated is not None and model.model_type in rules.without_config_class:
        return replace(model, stated=replace(model.stated, head_size=size))
    # What the Transformers library runs has heads of the stated size, inside of wrappers too.
    is_own = served.get(model.architecture) != TRANSFORMERS
    if not is_own or served.get(model.layer_class) not in rules.derived_heads:
        return model

    def sized(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
        return tuple(one if one.kind == SSM else one._replace(head_size=size) for one in layers)

    # MTP layers are of the model's own class (MiMoMultiTokenPredictorLayer)
    mtp = model.mtp and replace(model.mtp, layers=sized(model.mtp.layers))
    return replace(model, layers=sized(model.layers), mtp=mtp)


@lru_cache(maxsize=64)
def _every_fourth(model: Model, _weights: UnreadWeights) -> Model:
    """Return the model with full attention in every fourth layer."""
    layers = (one._replace(kind=SSM if (one.number + 1) % 4 else FULL) for one in model.layers)
    return replace(model, layers=tuple(layers))


@lru_cache(maxsize=256)
def _with_window(model: Model, _weights: UnreadWeights, rules: RuleSet) -> Model:
    """Return the model with a window in all layers where a list of one kind does not undo it."""
    # is_interleaved and EngineArgs.create_engine_config, 0.23; 0.33 looks at the kind.
    found, module = model.attention, rules.model_registry.served.get(model.layer_class)
    is_read = model.family == PLAIN_DECODER and module not in CLEARS_WINDOW
    has_one = is_read and found is not None and found.window_tokens and not found.use_mla
    if not has_one or {layer.kind for layer in model.layers} != {FULL}:
        return model
    return replace(model, layers=tuple(one._replace(kind=SLIDING) for one in model.layers))


@lru_cache(maxsize=64)
def _as_transformers_does(model: Model, _weights: UnreadWeights) -> Model:
    """Return the model without what its attention layers keep in addition to keys and values."""
    # create_attention_instances of transformers/base.py, 0.23 and 0.33: vLLM's plain attention.
    if not has_plain_kinds(model):
        return model
    assert model.attention is not None
    plain = replace(model.attention, own_backend=None, side_backends=(), full_spec="")
    layers = tuple(layer for layer in model.layers if layer.cache is None)
    return replace(model, attention=plain, layers=layers)


@lru_cache(maxsize=64)
def _as_older_library(model: Model, _weights: UnreadWeights) -> Model:
    """Return the model with plain heads for latents, and without the windows of a text part."""
    # create_attention_instances of transformers/base.py, 0.23: the heads of ModelConfig, and the
    # `layer_types` of the whole file.
    if model.attention is not None and model.attention.use_mla and model.stated is not None:
        plain = replace(model.stated, use_mla=False)
        model = replace(model, attention=plain, stated=None)
    kinds = {layer.kind for layer in model.layers}
    if model.whole_model_type and kinds == {FULL, SLIDING}:
        layers = tuple(layer._replace(kind=FULL) for layer in model.layers)
        model = replace(model, layers=layers)
    return model


@lru_cache(maxsize=16)
def _with_listed_blocks(model: Model, _weights: UnreadWeights) -> Model:
    count, mtp, block = model.listed_blocks or 1, model.mtp, model.layers[:2]
    if not (more := count - model.num_hidden_layers):
        return replace(model, listed_blocks=None)
    if mtp is not None:
        moved = tuple(one._replace(number=one.number + more) for one in mtp.layers)
        mtp = replace(mtp, layers=moved, first_index=mtp.first_index + more)
    layers = (one._replace(number=number) for number in range(count) for one in block)
    return replace(model, layers=tuple(layers), num_hidden_layers=count, mtp=mtp)


def has_plain_kinds(model: Model) -> bool:
    """Return whether every layer keeps the keys and values of its own tokens, maybe others too."""
    found = model.attention
    if found is None or found.use_mla or found.canvas_tokens:
        return False
    return all(layer.kind in {FULL, SLIDING} for layer in model.layers)

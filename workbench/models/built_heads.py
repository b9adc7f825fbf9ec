"""The class that builds the attention layers, and the heads that some classes derive."""

from dataclasses import replace

from workbench.core.architectures import architecture_of, language_models, versions_with
from workbench.core.built import built_kv_heads
from workbench.core.model import Attention, Model
from workbench.core.rule_set import RuleSet
from workbench.core.versions import RULE_SETS
from workbench.models.attention import ROPE_IS_HEAD_DIM
from workbench.models.fields import Fields
from workbench.models.listed import listed_name

HEAD_SIZE = "head_dim"


def layer_class(fields: Fields) -> str:
    """Return the architecture that builds the layers, also those inside of a wrapper."""
    whole = listed_name(fields.top, "") or ""
    if not fields.prefix:
        return whole
    inner = language_models(whole)
    if len(inner) == 1 and all(map(versions_with, inner)):
        return next(iter(inner))
    named = listed_name(fields.text, "") or architecture_of(fields.model_type)
    # Qwen2-VL and others name their text model in the code, whatever the file says of it.
    return named or whole


def derived_head_size(fields: Fields, attention: Attention | None) -> int | None:
    """Return hidden_size // num_attention_heads, None where the stated head_dim is that or absent.

    Which classes take it whatever head_dim says: `RuleSet.derived_heads`; which ones where the file
    does not say it: `RuleSet.without_config_class`.
    """
    if attention is None or attention.use_mla:
        return None
    if fields.model_type in ROPE_IS_HEAD_DIM and HEAD_SIZE in fields.text:
        return None
    if not (fields.has(HEAD_SIZE) and fields.has("hidden_size")):
        return None
    size = fields.integer("hidden_size") // attention.num_heads
    return None if size == fields.integer(HEAD_SIZE) else size


def built_attentions(model: Model) -> tuple[Attention | None, Attention | None]:
    """Return the heads that the classes of the oldest and the newest release have.

    They may not be the stated ones, `RuleSet.derived_heads` and `RuleSet.built_kv_heads`.
    """
    known = [one for one in RULE_SETS.values() if one.model_registry.served.get(model.layer_class)]
    built = [_as_built(model, rules) for rules in known] or [model.attention]
    return built[0], built[-1]


def _as_built(model: Model, rules: RuleSet) -> Attention | None:
    own, module = model.attention, rules.model_registry.served[model.layer_class]
    if own is None:
        return None
    size = model.derived_head_size if module in rules.derived_heads else None
    heads = built_kv_heads(own, module, rules)
    return replace(own, head_size=size or own.head_size, num_kv_heads=heads)

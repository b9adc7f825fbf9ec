"""What refuses how the weights of a checkpoint are stored: the method, and the model's dtype.

Source: `ModelConfig._verify_quantization` and `get_supported_act_dtypes` of the methods, 0.23 and
0.33.
"""

from workbench.core.described import AWQ, UnreadDescription
from workbench.core.errors import Refused, nearest_names
from workbench.core.online import (
    HUMMING,
    Need,
    Place,
    as_stored,
    is_online,
    loading_method,
    overrules,
)
from workbench.core.platforms import gfx_of
from workbench.core.rule_set import RULE_SETS, RuleSet
from workbench.core.stages.micro_scales import online_cut
from workbench.core.working_plan import WorkingPlan

QUANTIZATION_DTYPES = {
    **dict.fromkeys((AWQ, "auto-round", "fp8", "gptq", "quark"), ("bfloat16", "float16")),
    **dict.fromkeys(("modelopt", "modelopt_fp4", "modelopt_mixed"), ("bfloat16", "float16")),
    **dict.fromkeys(("modelopt_mxfp8", "mxfp4", "mxfp8"), ("bfloat16",)),
}
"""Method -> model dtypes. Source: `get_supported_act_dtypes` of the methods, 0.23 and 0.33."""
ONLINE_DTYPES = ("bfloat16", "float16")
"""Those of OnlineQuantizationConfig."""
DEPRECATED = frozenset({"fbgemm_fp8", "fp_quant"})
"""DEPRECATED_QUANTIZATION_METHODS, 0.23 and 0.33."""
OTHER_WORDS = {
    AWQ: ("awq_marlin", "auto_awq", "moe_wna16"),
    "gptq": ("auto_gptq", "gptq_marlin", "moe_wna16"),
    "fp8": ("deepseek_v4_fp8",),
}
"""Method of a checkpoint -> what `--quantization` may call it, where the version has the word."""
SHORTHANDS = frozenset({"mxfp4", "mxfp8"})
"""Words of online quantization that are methods of checkpoints as well."""
FOR_ANY = frozenset({HUMMING, "gguf"})
"""Words that take any checkpoint for their own."""
FROM_FILE = frozenset(
    {
        *("awq", "awq_marlin", "auto_awq", "gptq", "gptq_marlin", "auto_gptq", "moe_wna16", "inc"),
        *("modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed"),
    }
)
"""Words whose description is a file next to config.json (`get_config_filenames`)."""


def quantization_known(run: WorkingPlan) -> None:
    """Refuse a method of quantization that vLLM or the checkpoint does not have. Errors: Refused.

    Source: `ModelConfig._verify_quantization`.
    """
    word, file = run.settings.quantization, as_stored(run.model)
    # whatever `ModelConfig.is_quantized` says, which does not ask the text part
    is_stated = file.is_quantized or file.quantization is not None
    if word and is_stated and not _is_accepted(run, word, file.quantization):
        raise _differs(run, word, file.quantization)
    loading, known = loading_method(run), run.rules.quantization.methods
    if loading is not None and loading.lower() not in known:
        raise _unknown(run, loading)


def quantization_deprecated(run: WorkingPlan) -> None:
    """Refuse methods that start with --allow-deprecated-quantization only. Errors: Refused."""
    word = run.settings.quantization
    method = run.model.quantization or word
    if method not in DEPRECATED:
        return
    raise run.refusal(
        "quantization_deprecated",
        operands={"quantization": method},
        candidates=[{"quantization": None}, {"quantization": "fp8_per_tensor"}] if word else (),
        field="quantization" if word else "model",
        advice=f"Use {'fp8_per_tensor' if word == method else 'a checkpoint in another format'}.",
    )


def _is_accepted(run: WorkingPlan, word: str, method: str | None) -> bool:
    """Return whether a word may stand for the method of a checkpoint, None if it names none."""
    if word in {method, *FOR_ANY} or overrules(run.model):
        return True
    others = OTHER_WORDS.get(method or "", ())
    # MoeWNA16Config.is_moe_wna16_compatible
    ordered = run.model.described.follows_activations
    is_refused = word == "moe_wna16" and (run.platform.name != "cuda" or ordered)
    return word in others and word in run.rules.quantization.methods and not is_refused


def _differs(run: WorkingPlan, word: str, method: str | None) -> Refused:
    return run.refusal(
        "quantization_differs",
        operands={"quantization": word, "checkpoint": method},
        variant="" if method else "without_method",
    )


def _unknown(run: WorkingPlan, method: str) -> Refused:
    versions = [one for one, rules in RULE_SETS.items() if method in rules.quantization.methods]
    newer = f", or vLLM {versions[-1]}" if versions else ""
    is_word = run.settings.quantization == method
    words = run.rules.quantization.online_methods
    online = nearest_names(method, words) or tuple(words)
    return run.refusal(
        "quantization_unknown",
        operands={"quantization": method, "known": sorted(run.rules.quantization.methods)},
        variant="" if is_word else "of_checkpoint",
        nearest=online[0],
        newer=newer,
        candidates=[{"rules": name} for name in reversed(versions)],
        lower=method.lower(),
    )


def quantization_described(run: WorkingPlan) -> None:
    """Refuse a word for which a plain checkpoint has no description. Errors: Refused.

    Source: `get_quant_config` of model_loader/weight_utils.py.
    """
    word = run.settings.quantization
    if word is None or run.model.quantization is not None:
        return
    words = run.rules.quantization.online_methods
    described = [name for name, one in words.items() if one.is_described]
    raise run.refusal(
        "quantization_not_described",
        operands={"quantization": word, "allowed": described},
        candidates=[{"quantization": value} for value in (None, *described)],
        vllm_text=f"Cannot find the config file for {word}" if word in FROM_FILE else "",
        names=", ".join(described),
    )


def method_named(run: WorkingPlan) -> None:
    """Warn of a description without a method, which makes weights plain.

    Source: `get_quantization_config` of model_arch_config_convertor.py; `get_config` of
    transformers_utils/config.py reads hf_quant_config.json where config.json has no description.
    """
    file = as_stored(run.model)
    if file.is_quantized and file.quantization is None:
        run.problem("quantization_method_missing", operands={"quantization": None})


def description_read(run: WorkingPlan) -> None:
    """Refuse how a checkpoint says that its weights are stored. Errors: Refused."""
    found = _unread(run, run.rules)
    if found is None:
        return
    method, given = loading_method(run), run.model.described
    takes = [name for name, rules in RULE_SETS.items() if _unread(run, rules) is None]
    raise run.refusal(
        "quantization_not_read",
        operands={"quantization": method, **given._asdict()},
        candidates=[{"rules": name} for name in reversed(takes)],
        vllm_text=found.vllm_text(given),
        what=found.what(given),
        end=f", or vLLM {takes[-1]}." if takes else ".",
    )


def _unread(run: WorkingPlan, rules: RuleSet) -> UnreadDescription | None:
    method, platform = loading_method(run), run.platform.name
    for one in rules.quantization.unread_descriptions:
        is_here = method in one.methods and platform in (one.platforms or (platform,))
        if is_here and one.refuses(run.model.described):
            return one
    return None


def online_weights(run: WorkingPlan) -> None:
    """Refuse online quantization that layers refuse when they are built.

    Source: `__init__` and `create_weights` of the classes in quantization/online.
    """
    if run.model.online is None:
        return
    word, _stored = run.model.online
    if (need := _unmet(run, word)) is None:
        online_cut(run, run.rules.quantization.online_methods[word].linear)
        return
    others = [one for one in ("fp8", "fp8_per_block") if _unmet(run, one) is None]
    advice = f"Take {others[0]}, or" if others else "Omit it, or take"
    run.problem(
        "no_online_kernel",
        operands={"quantization": word},
        candidates=tuple({"quantization": value} for value in (*others, None)),
        vllm_text=need.vllm_text,
        need=need,
        advice=advice,
    )


def _unmet(run: WorkingPlan, word: str) -> Need | None:
    """Return the first need of a word that this device does not meet."""
    place = place_of(run)
    # a class may have a number of experts by default, and a model of it no layer with any
    weights, needs = run.model.unread_weights, run.rules.quantization.online_methods[word].needs
    has_experts = run.model.num_experts and weights.of().may_have_experts
    found = (one for one in needs if (has_experts or not one.of_experts) and not one.met(place))
    return next(found, None)


def place_of(run: WorkingPlan) -> Place:
    """Return where the weights are loaded."""
    settings, capability = run.settings, run.capability or (0, 0)
    return Place(
        run.platform.name,
        capability,
        gfx_of(settings),
        settings.rocm_aiter,
        settings.batch_invariant,
    )


def quantization_capability(run: WorkingPlan) -> None:
    """Refuse methods of quantization that need a newer device. Errors: Refused.

    Source: `VllmConfig._get_quantization_config`.
    """
    method = run.model.quantization
    # some words are methods of checkpoints, too, with a class of their own
    is_shorthand = is_online(run.model) and method in SHORTHANDS
    needed = None if is_shorthand else run.rules.quantization.min_capabilities.get(method or "")
    if needed is None or run.capability is None or run.capability >= needed:
        return
    name = "gpt_oss_mxfp4" if overrules(run.model) and method == "mxfp4" else method
    written, has_name = ".".join(map(str, needed)), run.settings.device is not None
    raise run.refusal(
        "quantization_capability",
        operands={"quantization": method, "needed": written},
        candidates=[{"device": "H100"} if has_name else {"compute_capability": written}],
        field="device" if has_name else "compute_capability",
        own=".".join(map(str, run.capability)),
        name=name,
    )


def quantization_dtype(run: WorkingPlan) -> None:
    """Refuse model dtypes that the kernels of quantized weights do not take."""
    method, dtype = run.model.quantization, run.model_dtype
    allowed = QUANTIZATION_DTYPES.get(method or "")
    if is_online(run.model):
        allowed = ONLINE_DTYPES
    elif method == AWQ and _is_plain_awq(run):
        allowed = ("float16",)
    if allowed is None or dtype in allowed:
        return
    raise run.refusal(
        "quantization_dtype",
        operands={"dtype": dtype, "quantization": method, "allowed": list(allowed)},
        candidates=[{"dtype": value} for value in ("auto", *allowed)],
        kept=" or ".join(allowed),
        nearest=allowed[0],
    )


def _is_plain_awq(run: WorkingPlan) -> bool:
    """Return whether AWQ runs without Marlin's kernels, in a class of its own (0.23)."""
    # AWQMarlinConfig.override_quantization_method and is_awq_marlin_compatible
    is_kept = run.settings.quantization == AWQ or run.settings.batch_invariant
    is_kept |= not run.model.described.is_for_marlin
    return run.rules.quantization.has_plain_awq and (is_kept or run.platform.name == "xpu")

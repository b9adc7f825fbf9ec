"""What the classes of a model and of its configuration assert of its config.json."""

from typing import Any

from workbench.core.built import ANY_MODULE, TRANSFORMERS, module_of_layers
from workbench.core.groups.built_layers import skips_layers
from workbench.core.model import FULL, Model
from workbench.core.online import is_online
from workbench.core.platforms import is_sm10x
from workbench.core.ranks import split_of
from workbench.core.rule_set import RULE_SETS, RuleSet
from workbench.core.stages.backend_requests import imposed_backend
from workbench.core.stages.layer_checks import COMPRESSED
from workbench.core.stages.mtp_checks import WITHOUT
from workbench.core.stages.other_splits import other_splits, written
from workbench.core.weights import ROW
from workbench.core.working_plan import WorkingPlan

SCORES = frozenset({"sigmoid", "softmax", "sqrtsoftplus"})
"""How a router may weigh experts (`create_fused_moe_router`, 0.23 and 0.33)."""

WIDTH = "The hidden size ({width}) is not a multiple of the number of attention heads ({heads})."
WIDTH_OF_TYPES = {"gpt_neox": "The hidden size is not divisible by the number of attention heads!"}
"""What `validate_architecture` of a configuration class says, where it is not that of most."""
ZAMBA = "zamba2"
WIDTH_OF_MODULES = {
    **dict.fromkeys(("bloom", "falcon", "molmo", "molmo2", "olmo", "olmo_hybrid", "persimmon"), ""),
    ZAMBA: "attention_hidden_size must be divisible by num_attention_heads ",
    "stablelm": "hidden_size must be divisible by num_heads ",
}
"""Module -> what its attention says to a width that the heads do not divide; mostly nothing."""
WIDTH_OF_LIBRARY = {
    "gpt_bigcode": "`embed_dim` must be divisible by num_heads",
    "persimmon": "hidden_size must be divisible by num_heads ",
}
"""model_type -> the same of a class of the Transformers library."""
ONE_RANK = {"DoryForCausalLM": "Dory currently supports tensor_parallel_size=1 only"}
"""Architectures without shares of ranks -> vLLM's text (0.33)."""
WITH_BACKENDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "FlintForCausalLM": ("Flint requires FlashInfer attention", ("FLASHINFER",)),
    "UnlimitedOCRForCausalLM": ("Unlimited-OCR: ", ("TRITON_ATTN", "FLEX_ATTENTION")),
    "VoxtralRealtimeGeneration": (
        "is not yet supported.Contributions to support more backends",
        ("FLASH_ATTN", "TRITON_ATTN", "ROCM_AITER_FA", "ROCM_ATTN", "CPU_ATTN"),
    ),
}
"""Architectures whose caches few backends read -> vLLM's text, and those; one that vLLM sets itself
is another."""
PLAIN_PROJECTIONS = {"STEP5_DSA": "Step5 DSA layers fuse qkv with the sparse indexer into one"}
"""What chooses tokens, and is built with a projection that cannot be quantized -> vLLM's text."""
COUNTS_EXPERTS = frozenset(
    {
        *("alice_ai", "cohere2_moe", "ernie45_moe", "ernie45_vl_moe", "exaone_moe", "hunyuan_v1"),
        *("hy_v3", "hy_v4", "interns1_pro", "interns2_mobius", "interns2_preview", "k2_horizon"),
        *("laguna", "lfm2_moe", "mellum", "mimo_v2", "minimax_m2", "minimax_m3", "qwen2_moe"),
        *("qwen3_5", "qwen3_moe"),
        *("qwen3_next", "qwen3_omni_moe_thinker", "qwen3_vl_moe", "step3_text", "step3p5", "step5"),
    }
)
"""Modules whose sparse block wants no more ranks than experts, whatever shares they have (0.23 and
0.33)."""
WITHOUT_PLAN = "hunyuan_v1"
"""model_type of classes of the Transformers library without a plan for ranks: vLLM leaves layers
whole that do not divide."""
M3_SPARSE, QSA = "MINIMAX_M3_SPARSE", "QWEN4_EXP_EXP_QSA_STATE"
"""What reads sparse layers of MiniMax-M3, and what Qwen4-Exp keeps alongside (0.33)."""


def tied_head(run: WorkingPlan) -> None:
    """Refuse a head of its own where the class takes the embedding, or the other way round."""
    name, registry = run.model.layer_class, run.rules.model_registry
    needs, is_tied = name in registry.only_tied, None
    if needs or name in registry.never_tied:
        is_tied = run.model.weights.is_tied
    if is_tied is None or is_tied == needs:
        return
    run.problem(
        "head_not_as_asserted",
        operands={"tie_word_embeddings": is_tied, "architecture": name},
        candidates=tuple({"rules": one} for one in RULE_SETS if not _asserts(RULE_SETS[one], name)),
        negation="" if needs else "not ",
    )


def _asserts(rules: RuleSet, name: str) -> bool:
    return name in rules.model_registry.only_tied | rules.model_registry.never_tied


def whole_class(run: WorkingPlan) -> None:
    """Refuse ranks, or a backend, that the class of a model was not written for."""
    name, tp = run.model.architecture, run.settings.tensor_parallel
    errors = run.model.build_errors
    module = run.rules.model_registry.served.get(name, TRANSFORMERS)
    of_library = module == TRANSFORMERS
    text = errors.get(module, errors.get(ANY_MODULE))
    attention = run.model.attention
    side = () if attention is None else attention.side_backends
    if run.model.quantization == "mxfp4" and of_library and not is_online(run.model):
        text = "Transformers modeling backend does not support MXFP4 quantization yet."
    if QSA in side and run.model.quantization == COMPRESSED and run.model.kv_cache_dtype != "auto":
        text = "Qwen4Exp QSA does not support KV quantization"
    if text is not None:
        run.problem("class_not_built", operands={"architecture": name}, vllm_text=text)
    if tp > 1 and name in ONE_RANK:
        run.problem(
            "one_rank_only",
            operands={"tensor_parallel": tp, "architecture": name},
            vllm_text=ONE_RANK[name],
        )
    text, backends = WITH_BACKENDS.get(name, ("", ()))
    plain = next((PLAIN_PROJECTIONS[one] for one in side if one in PLAIN_PROJECTIONS), None)
    if plain and is_online(run.model):
        run.problem(
            "projection_quantized",
            operands={"quantization": run.settings.quantization, "architecture": name},
            vllm_text=plain,
        )
    if backends and (imposed := imposed_backend(run)):
        backends = tuple(dict.fromkeys((imposed, *backends)))
    if backends and run.backend not in {None, *backends}:
        run.problem(
            "backend_of_class",
            operands={"backend": run.backend, "architecture": name},
            candidates=tuple({"backend": one} for one in backends),
            vllm_text=text,
            expected=" or ".join(backends),
        )


def whole_heads(run: WorkingPlan) -> None:
    """Check that the heads divide the width, where the configuration class does."""
    _check_class_width(run, run.model, "model", ())


def whole_draft_heads(run: WorkingPlan) -> None:
    """Check the same of a drafter, unless its file is of speculators, which no class checks."""
    file = run.model.drafter
    if file is not None and (file.head is None or file.head.method is None):
        _check_class_width(run, file, "draft_model", (WITHOUT,))


def _check_class_width(
    run: WorkingPlan, model: Model, field: str, candidates: tuple[dict[str, Any], ...]
) -> None:
    heads, width = model.attention and model.attention.num_heads, model.hidden_size
    if model.model_type in run.rules.whole_heads and heads and width and width % heads:
        run.problem(
            "width_not_divisible",
            operands={"hidden_size": width, "num_attention_heads": heads},
            candidates=candidates,
            field=field,
            what=f"the configuration class of {model.model_type}",
            vllm_text=WIDTH_OF_TYPES.get(model.model_type, WIDTH).format(width=width, heads=heads),
        )


def filled_width(run: WorkingPlan) -> None:
    """Check that the heads divide the width, where the attention of the class does."""
    model, module = run.model, module_of_layers(run.model, run.rules)
    heads, width = model.attention and model.attention.num_heads, model.hidden_size
    known = WIDTH_OF_LIBRARY if module == TRANSFORMERS else WIDTH_OF_MODULES
    text = known.get(model.model_type if module == TRANSFORMERS else module)
    if text is None or not model.attention or not heads or not width:
        return
    # attention_head_dim and attention_hidden_size of Zamba2's class; others have hidden_size alone
    whole = (
        2 * width == heads * model.attention.head_size if module == ZAMBA else width % heads == 0
    )
    if whole:
        return
    run.problem(
        "width_not_divisible",
        operands={"hidden_size": width, "num_attention_heads": heads},
        what=f"the attention of {model.architecture}",
        vllm_text=text,
    )


def ranks_above_experts(run: WorkingPlan) -> None:
    """Refuse more ranks than experts where the class of a sparse block counts them."""
    ranks, count = run.settings.tensor_parallel, run.model.num_experts
    module = module_of_layers(run.model, run.rules)
    if not 0 < count < ranks or module.rpartition(".")[2] not in COUNTS_EXPERTS:
        return
    if run.model.weights.may_have_experts:
        run.problem(
            "ranks_above_experts",
            operands={"tensor_parallel": ranks, "num_experts": count},
            candidates=({"tensor_parallel": count},),
        )


def linear_split(run: WorkingPlan) -> None:
    """Refuse ranks that cannot have equal shares of a linear layer.

    Source: `MergedColumnParallelLinear.__init__`, and `divide` of the others, 0.23 and 0.33.
    """
    split, served = split_of(run), run.rules.model_registry.served
    built = () if split.ranks == 1 else run.model.weights.divided_singly
    parts = [one for one in built if run.rules.weight_copies.get(one.kind, 1)]
    part = next((one for one in parts if not one.fits(split)), None)
    if part is None:
        return
    of_library = served.get(run.model.layer_class) == TRANSFORMERS
    if of_library and run.model.model_type.startswith(WITHOUT_PLAN):
        return
    is_merged = len(part.outputs) > 1 and not of_library
    whole = part.inputs if part.shard == ROW else part.outputs[0][0]
    valid = other_splits(run, lambda other: all(one.fits(other) for one in parts))
    run.problem(
        "layer_not_divisible",
        operands={"part": part.name, "size": whole, "tensor_parallel": split.ranks},
        candidates=valid,
        vllm_text="" if is_merged else f"{whole} is not divisible by {split.ranks}",
        nearest=written(valid[:1]),
    )


def norm_groups(run: WorkingPlan) -> None:
    """Refuse ranks that do not divide the groups that linear attention norms its output in."""
    # BailingMoELinearAttention.__init__, 0.23 and 0.33
    groups, tp = getattr(run.model.state, "norm_groups", None), run.settings.tensor_parallel
    if groups is None or groups % tp == 0:
        return
    text = "group_norm_size must be divisible by tp_size"
    run.problem(
        "norm_groups_not_divisible",
        operands={"group_norm_size": groups, "tensor_parallel": tp},
        candidates=tuple({"tensor_parallel": n} for n in range(tp - 1, 0, -1) if groups % n == 0),
        vllm_text="tp_size must be <= group_norm_size for local rms norm" if tp > groups else text,
    )


def sparse_nvfp4(run: WorkingPlan) -> None:
    """Refuse nvfp4 where sparse layers have no kernel for it."""
    # select_main_impl of minimax_m3/common/sparse_attention.py, 0.33
    attention = run.model.attention
    side = () if attention is None else attention.side_backends
    if run.kv_cache_dtype != "nvfp4" or M3_SPARSE not in side or is_sm10x(run):
        return
    run.problem("sparse_nvfp4_needs_sm100", operands={"kv_cache_dtype": "nvfp4"})


def listed_blocks(run: WorkingPlan) -> None:
    """Refuse blocks that are built in a different number from the checkpoint's."""
    # DefaultModelLoader.track_weights_loading, 0.23: what is quantized is not tracked.
    is_listed = run.model.architecture in run.rules.lists_blocks and run.model.listed_blocks
    if not is_listed or run.model.is_quantized:
        return
    run.problem("layers_without_weights", operands={"blocks": run.model.num_hidden_layers})


def layers_without_number(run: WorkingPlan) -> None:
    """Refuse a list of layers to skip where two layers of a block have one number."""
    # extract_layer_index, which MLAAttention.__init__ of 0.33 calls
    given, attention = run.settings.kv_cache_dtype_skip_layers, run.model.attention
    if (
        not skips_layers(run)
        or attention is None
        or not (attention.use_mla and run.rules.groups.skips_mla_layers)
    ):
        return
    layers = run.model.layers
    numbers = [one.number for one in layers if one.kind == FULL and one.cache is None]
    if attention.is_compressed or len(numbers) == len(set(numbers)):
        return
    run.problem("layers_without_number", operands={"kv_cache_dtype_skip_layers": list(given or ())})


def expert_scores(run: WorkingPlan) -> None:
    """Refuse experts that config.json weighs by a function that the router does not know."""
    name = run.model.layer_class
    if run.rules.model_registry.served.get(name) not in run.rules.scored_by_config:
        return
    score = run.model.weights.expert_score
    if score in {"", *SCORES}:
        return
    run.problem(
        "expert_score_unknown", operands={"scoring_func": score}, known=", ".join(sorted(SCORES))
    )

"""Values of random scenarios that depend on what was chosen before: see `Field.examples`."""

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.arithmetic import GIB
from workbench.core.devices import DEVICES
from workbench.core.ranks import context_sizes
from workbench.core.speculation import DRAFT_MODEL, SUFFIX
from workbench.core.versions import RuleSet
from workbench.models import load_model
from workbench.scenario.field import Field, mostly

Chosen = Mapping[str, Any]

DECODERS = ("llama-3.1-8b", "qwen3-8b", "lfm2-350m")
"""Draft models that are whole models."""
HEADS = {
    "eagle": ("LlamaForCausalLM", "llama"),
    "eagle3": ("LlamaForCausalLMEagle3", "llama"),
    "dflash": ("DFlashDraftModel", "qwen3"),
    "dspark": ("DSparkDraftModel", "qwen3"),
}
"""Method -> class and type of a head that reads the hidden states of any target."""
WITH_MODEL = {DRAFT_MODEL, *HEADS}
UNQUANTIZED = (("0",), ("0", "1"), ("sliding_window",))


YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32768}
LENGTHS = mostly(None, ({"max_position_embeddings": 16384}, {"rope_scaling": YARN}), 0.9)
"""Changes of what a file says about lengths."""


def backends_of_model(_field: Field, chosen: Chosen, rules: RuleSet) -> Sequence[Any]:
    """Return the backends of the platform for the model's kind of attention."""
    return mostly(None, _backends(chosen, rules), 0.3)


def backends_of_drafter(_field: Field, chosen: Chosen, rules: RuleSet) -> Sequence[Any]:
    """Return the same for a drafter's layers."""
    return mostly(None, _backends(chosen, rules), 0.8) if chosen["num_speculative_tokens"] else ()


def _backends(chosen: Chosen, rules: RuleSet) -> Sequence[str]:
    attention = load_model(chosen["model"]).attention
    return [
        name
        for name, backend in rules.backends.items()
        if attention is not None
        and backend.is_selectable
        and chosen["platform"] in backend.platforms
        and backend.is_mla == attention.use_mla
        and backend.is_sparse == attention.is_sparse
        and backend.compression == attention.compression
    ]


def connectors(_field: Field, _chosen: Chosen, rules: RuleSet) -> Sequence[Any]:
    """Return KV connectors of the version, and mostly none."""
    return mostly(None, tuple(rules.offload.connectors), 0.9)


def devices_of_platform(_field: Field, chosen: Chosen, _rules: RuleSet) -> Sequence[Any]:
    """Return devices of the platform that was chosen before."""
    names = [one.name for one in DEVICES.values() if one.platform == chosen["platform"]]
    return mostly(None, names, 0.7)


def capabilities(_field: Field, chosen: Chosen, _rules: RuleSet) -> Sequence[Any]:
    """Return compute capabilities where no device has one."""
    is_open = chosen["platform"] == "cuda" and chosen["device"] is None
    return (None, "9.0", "10.0", "8.0", "12.0") if is_open else ()


def on_cuda(_field: Field, chosen: Chosen, _rules: RuleSet) -> Sequence[Any]:
    """Return the values of a switch of CUDA."""
    return (False, False, False, True) if chosen["platform"] == "cuda" else ()


def on_rocm(_field: Field, chosen: Chosen, _rules: RuleSet) -> Sequence[Any]:
    """Return the values of a switch of ROCm."""
    return (False, False, True) if chosen["platform"] == "rocm" else ()


def methods(_field: Field, chosen: Chosen, rules: RuleSet) -> Sequence[Any]:
    """Return methods that there is a drafter for, where tokens are drafted."""
    # suffix needs a package that vLLM does not bring.
    names = [
        name
        for name in rules.speculation.names
        if name != SUFFIX
        and (name in WITH_MODEL or not rules.speculation.methods[name].needs_model)
    ]
    return mostly(None, names, 0.3) if chosen["num_speculative_tokens"] else ()


def draft_models(_field: Field, chosen: Chosen, _rules: RuleSet) -> Sequence[Any]:
    """Return drafters of the method: whole models, or a head as wide as the target."""
    if not chosen["num_speculative_tokens"]:
        return ()
    method = chosen["speculative_method"]
    if method is None:
        return mostly(None, DECODERS, 0.8)
    if method == DRAFT_MODEL:
        return (chosen["model"], *DECODERS)
    return (_head(chosen["model"], method),) if method in HEADS else ()


def draft_ranks(_field: Field, chosen: Chosen, _rules: RuleSet) -> Sequence[Any]:
    """Return ranks of a drafter."""
    ranks = chosen["tensor_parallel"]
    return (None, None, None, 1, ranks) if chosen["num_speculative_tokens"] else ()


def dtypes_of_drafter(_field: Field, chosen: Chosen, rules: RuleSet) -> Sequence[Any]:
    """Return KV-cache dtypes of a drafter, where a release has a setting for it."""
    if not (chosen["num_speculative_tokens"] and rules.speculation.takes_kv_cache_dtype):
        return ()
    return mostly(None, ("auto", "bfloat16", "fp8", "fp8_e5m2"), 0.7)


def hidden_states(_field: Field, chosen: Chosen, _rules: RuleSet) -> Sequence[Any]:
    """Return numbers of layers where tokens are drafted and nothing says how."""
    is_open = chosen["num_speculative_tokens"] and chosen["speculative_method"] is None
    return (0, 0, 0, 0, 1, 3) if is_open and chosen["draft_model"] is None else ()


def unquantized_layers(_field: Field, chosen: Chosen, _rules: RuleSet) -> Sequence[Any]:
    """Return layers that keep the model's dtype in a quantized cache."""
    return () if chosen["kv_cache_dtype"] == "auto" else mostly(None, UNQUANTIZED, 0.7)


def context_ranks(_field: Field, chosen: Chosen, _rules: RuleSet) -> Sequence[Any]:
    """Return ranks that may share tokens, and a few that may not."""
    ranks = chosen["tensor_parallel"]
    allowed = context_sizes(load_model(chosen["model"]), ranks)[1:]
    if ranks == 1:
        return ()
    return mostly(1, (*allowed * 3, 2, 3), 0.7) if allowed else mostly(1, (2,), 0.95)


def intervals(_field: Field, _chosen: Chosen, rules: RuleSet) -> Sequence[Any]:
    """Return intervals of checkpoints, where a release has a flag for them."""
    return mostly(None, (0, 1056, 2048), 0.8) if rules.prefill.keeps_few_states else ()


def unequal_ranks(_field: Field, chosen: Chosen, _rules: RuleSet) -> Sequence[Any]:
    """Return sizes of ranks that differ, where there are several."""
    ranks = chosen["tensor_parallel"] * chosen["pipeline_parallel"]
    sizes = tuple((20 + rank % 3) * GIB for rank in range(ranks))
    return mostly(None, (sizes,), 0.8) if ranks > 1 else ()


def unequal_stages(_field: Field, chosen: Chosen, _rules: RuleSet) -> Sequence[Any]:
    """Return layers of stages that differ, and some that do not add up."""
    stages, layers = chosen["pipeline_parallel"], load_model(chosen["model"]).num_hidden_layers
    share = layers // stages
    if stages == 1 or share < 2:
        return ()
    others = (share - 1,) * (stages - 1)
    whole = (layers - sum(others), *others)
    return mostly(None, (whole, whole, whole[::-1], whole[::-1], others), 0.7)


def _head(reference: Any, method: str) -> dict[str, Any]:
    target = load_model(reference)
    architecture, model_type = HEADS[method]
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "hidden_size": target.hidden_size,
        "intermediate_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_hidden_layers": 1,
        "vocab_size": target.vocab_size,
        "max_position_embeddings": 32768,
        "torch_dtype": "bfloat16",
        "dflash_config": {"target_layer_ids": [1], "mask_token_id": 0},
        "markov_rank": 256,
    }

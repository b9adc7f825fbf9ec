"""What one step takes at its peak, in the profiling run: an estimate.

Source: `profile_run` of both runners, 0.23 and 0.33. The factors are those that public start-up
logs gave, see `tests/data/README.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.core.capacity.graph_sizes import profiles_part
from workbench.core.capacity.largest_images import kept_bytes, tower_bytes
from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.groups.index_keys import key_bytes
from workbench.core.media import takes_items
from workbench.core.model import INDEX_KEY, INDEXER_KEYS
from workbench.core.platforms import FP8_SINCE
from workbench.core.ranks import split_of
from workbench.core.runner import model_runner
from workbench.core.speculation import OF_SEVERAL_LAYERS
from workbench.core.weights import COLUMN, MIXING, Part

if TYPE_CHECKING:
    from workbench.core.plan import Plan

WIDEST_UNKNOWN = 8
"""Times the hidden size, of merged first outputs, where only the checkpoint's size is known."""
GATED = 1.5
"""Of the merged first outputs of an MLP: they, and their product, exist at the same time."""
GATED_FP8 = 1.25
"""The same, where the product has half the bytes."""
FORWARD = 1.2
"""Of the widest layer: other tensors of a step."""
FLOAT_LOGITS = 3.3
"""Copies of the logits in float32, while the sampler works."""


def activations(plan: Plan, *, is_first: bool, is_last: bool) -> int:
    """Return the peak of a step: tower, widest layer or sampler, whichever is the largest.

    What the tower said of the images, and the workspace of experts, stay for the rest of the step.
    """
    workspace = max(_workspace(plan), _gathered_keys(plan))  # both are cut from one allocation
    rest = max(_forward(plan), _sampler(plan) if is_last else 0) + workspace
    return max(tower_bytes(plan), kept_bytes(plan) + rest) if is_first else rest


def compiling(plan: Plan) -> int:
    """Return what the start that compiles the first layer has at its peak; 0 if none does.

    Inductor measures kernels that it combines (`benchmark_combo_kernel`) on a copy of all that they
    read, the whole vocabulary, and keeps its choice for later starts. A model that sees looks
    tokens up outside of what is compiled. Where graphs are profiled their constant has it.
    """
    weights = plan.model.weights
    sees = weights.has_tower and takes_items(plan)
    if plan.settings.enforce_eager or sees or not profiles_part(plan):
        return 0
    rows = weights.vocabulary // split_of(plan).ranks + plan.max_num_batched_tokens
    return rows * (plan.model.hidden_size or 0) * FLOAT_BYTES[plan.model_dtype]


def _forward(plan: Plan) -> int:
    hidden, gated = plan.model.hidden_size or 0, GATED_FP8 if _fuses(plan) else GATED
    streams, more = _streams(plan), gated * _widest(plan, of_experts=False)
    if streams:
        # Kernels that mix streams write them anew (mhc_fused_post_pre), a residual is added to.
        more = max(more, streams + hidden)
        # Those that are averaged for a drafter stay until the last layer (aux_recon).
        more += streams if plan.speculative_method in OF_SEVERAL_LAYERS else 0
    width = (streams or hidden) + hidden + more
    return int(FORWARD * plan.max_num_batched_tokens * width * FLOAT_BYTES[plan.model_dtype])


def _streams(plan: Plan) -> int:
    """Return the elements of a token in all residual streams; 0 for one residual."""
    return max((p.inputs for p in plan.model.weights.known_parts if p.kind == MIXING), default=0)


def _fuses(plan: Plan) -> bool:
    """Return whether the product of an MLP is made in 8 bits, and never in those of the model."""
    # enable_act_fusion of config/vllm.py, 0.23 and 0.33: where neither kernel is a custom one,
    # Inductor fuses them; squares of weights have a custom one, and older cards no such kernel
    if plan.settings.enforce_eager or (plan.capability or (0, 0)) < FP8_SINCE:
        return False
    known = plan.model.weights.known_parts
    found = [part.stored for part in known if _is_first(part, of_experts=False)]
    return bool(found) and all(one and one.is_fp8 and not one.is_square for one in found)


def _workspace(plan: Plan) -> int:
    """Return the buffers of the experts that every token of a step takes: between and after."""
    widest = _widest(plan, of_experts=True)
    if not widest:
        return 0
    width = plan.model.weights.experts_per_token * (widest + (plan.model.hidden_size or 0))
    # they get the tokens of all engines
    tokens = plan.max_num_batched_tokens * split_of(plan).engines
    return tokens * width * FLOAT_BYTES[plan.model_dtype]


def _gathered_keys(plan: Plan) -> int:
    """Return the workspace into which a prefill gathers the keys of a sparse indexer."""
    # sparse_attn_indexer reserves it in the profiling run; get_max_prefill_buffer_size.
    attention = plan.model.attention
    if attention is None or plan.platform.name != "cuda":
        return 0
    caches = [layer.cache for layer in plan.model.layers if layer.cache is not None]
    keys = [one for one in caches if (one.part, one.stored) == (INDEXER_KEYS, INDEX_KEY)]
    sizes = [key.elements / key.tokens_per_state for key in keys]
    own = 0 if attention.indexer is None else key_bytes(attention.indexer)
    return int(plan.rules.gathered_keys(plan.max_model_len) * max(own, *sizes, 0))


def _widest(plan: Plan, *, of_experts: bool) -> int:
    """Return the outputs of the widest first layer of an MLP on one rank, merged ones together."""
    weights, split = plan.model.weights, split_of(plan)
    if weights.unknown and not of_experts:
        return WIDEST_UNKNOWN * (plan.model.hidden_size or 0) // split.ranks
    found = [part for part, _ in weights.parts if _is_first(part, of_experts=of_experts)]
    return max((sum(part.share(split)[0]) for part in found), default=0)


def _is_first(part: Part, *, of_experts: bool) -> bool:
    # Kernels that pad experts have no such workspace.
    if of_experts:
        return part.experts > 1 and part.shard == COLUMN and part.multiple == 1
    is_merged = len(part.outputs) == 2 and part.experts == 1
    return is_merged and part.is_linear and part.shard == COLUMN


def _sampler(plan: Plan) -> int:
    copies = 1 if profiles_part(plan) else FLOAT_LOGITS
    logits = plan.max_num_seqs * plan.model.weights.vocabulary
    return int(logits * (FLOAT_BYTES[plan.model_dtype] + copies * FLOAT_BYTES["float32"]))


def counted_tokens(plan: Plan) -> int:
    """Return the counts of output tokens and the mask of prompts that V2 keeps for penalties."""
    # PenaltiesState.__init__, 0.23 and 0.33: 32 bits of a count, and one of the mask
    if model_runner(plan) != "v2" or plan.model.pooling is not None:
        return 0
    return plan.max_num_seqs * plan.model.weights.vocabulary * (32 + 1) // 8

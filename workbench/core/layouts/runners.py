"""What the two model runners make of a plan: what stops each of them."""

from workbench.core.groups.graph_support import attention_groups
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.layer_views import RUNNERS
from workbench.core.layouts.of_plan import plan_layout
from workbench.core.plan import Plan
from workbench.core.problems import ERROR, Problem, declared
from workbench.core.runner import refused_by_runner

SAMPLE_BLOCKS = 3
"""Blocks of the tensor that is laid out while the memory, and so the pool, is unknown."""


def runner_verdicts(plan: Plan) -> dict[str, tuple[Problem, ...]]:
    """Return runner ("v1" or "v2") -> what keeps it from starting; nothing when nothing does."""
    # VLLM_USE_V2_MODEL_RUNNER chooses the other one.
    return {runner: (*plan.errors, *_of_runner(plan, runner)) for runner in RUNNERS}


def _of_runner(plan: Plan, runner: str) -> tuple[Problem, ...]:
    found = []
    if why := refused_by_runner(plan, runner):
        code = "runner_without_feature"
        found.append(Problem(code, **declared(code, plan, **why)))
    # As many blocks as the pool has: two of them make a shape ambiguous to the V2 runner.
    blocks = SAMPLE_BLOCKS if plan.cache is None else plan.cache.blocks_or(SAMPLE_BLOCKS)
    kinds = [one for one in attention_groups(plan, plan.cache) if not one.spec.is_mamba]
    for layer in dict.fromkeys(one.layers[0] for one in kinds) or (None,):
        try:
            plan_layout(plan, num_blocks=blocks, runner=runner, layer=layer)
        except LayoutError as error:
            if error.vllm_exception is not None:
                refused = Problem(
                    code=error.code,
                    severity=ERROR,
                    field=error.field or "block_size",
                    message=error.message,
                    operands=error.operands,
                    vllm_text=error.vllm_text,
                )
                return (*found, refused)
    return tuple(found)

"""Data and expert parallelism: several engines of one model, and ranks with whole experts.

Source: `LLM.__init__`, `ModelConfig._verify_with_expert_parallelism`, 0.23 and 0.33.
"""

from workbench.core.batch_defaults import LLM, SERVE
from workbench.core.working_plan import WorkingPlan


def engines_of_server(run: WorkingPlan) -> None:
    """Refuse several engines outside of a server. Errors: Refused."""
    engines = run.settings.data_parallel
    if engines == 1 or run.settings.entry_point != LLM:
        return
    raise run.refusal(
        "engines_without_server",
        operands={"data_parallel": engines, "entry_point": LLM},
        candidates=({"entry_point": SERVE},),
        serve=SERVE,
    )


def whole_experts(run: WorkingPlan) -> None:
    """Refuse expert parallelism of a model without experts. Errors: Refused."""
    if not run.settings.enable_expert_parallel or run.model.num_experts:
        return
    raise run.refusal("no_experts", operands={"enable_expert_parallel": True, "num_experts": 0})

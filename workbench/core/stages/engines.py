"""Data and expert parallelism, and what runs the model: several engines, ranks with whole experts.

Source: `LLM.__init__`, `ModelConfig._verify_with_expert_parallelism`, 0.23 and 0.33.
"""

from workbench.core.batch_defaults import LLM, SERVE
from workbench.core.runner import model_runner, refused_by_runner
from workbench.core.stages.mtp_checks import WITHOUT
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


def model_runner_serves(run: WorkingPlan) -> None:
    """Refuse what the model runner does not have. Errors: Refused."""
    if found := refused_by_runner(run, model_runner(run)):
        raise run.refusal("runner_without_feature", candidates=(WITHOUT,), **found)


def whole_experts(run: WorkingPlan) -> None:
    """Refuse expert parallelism of a model without experts. Errors: Refused."""
    if not run.settings.enable_expert_parallel or run.model.num_experts:
        return
    raise run.refusal("no_experts", operands={"enable_expert_parallel": True, "num_experts": 0})

"""Data and expert parallelism: several engines of one model, and ranks with whole experts.

Source: `LLM.__init__`, `ModelConfig._verify_with_expert_parallelism`, 0.23 and 0.33.
"""

from workbench.core.batch_defaults import LLM, SERVE
from workbench.core.errors import Refused
from workbench.core.working_plan import WorkingPlan


def engines_of_server(run: WorkingPlan) -> None:
    """Refuse several engines outside of a server. Errors: Refused."""
    engines = run.settings.data_parallel
    if engines == 1 or run.settings.entry_point != LLM:
        return
    raise Refused(
        "engines_without_server",
        f"data_parallel = {engines}: LLM(...) starts one engine only. Set entry_point to {SERVE}, "
        "or start one process per engine yourself.",
        field="data_parallel",
        operands={"data_parallel": engines, "entry_point": LLM},
        candidates=[{"entry_point": SERVE}, {"data_parallel": 1}],
        vllm_text=f"LLM(data_parallel_size={engines}) is not supported for single-process usage",
    )


def whole_experts(run: WorkingPlan) -> None:
    """Refuse expert parallelism of a model without experts. Errors: Refused."""
    if not run.settings.enable_expert_parallel or run.model.num_experts:
        return
    raise Refused(
        "no_experts",
        f"enable_expert_parallel divides routed experts among ranks, and {run.model.name} has "
        "none. Omit it.",
        field="enable_expert_parallel",
        operands={"enable_expert_parallel": True, "num_experts": 0},
        candidates=[{"enable_expert_parallel": False}],
        # Raised by ModelConfig.verify_with_parallel_config
        vllm_text="Number of experts in the model must be greater than 0",
    )

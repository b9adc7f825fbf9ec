"""The token budget of a step and the number of sequences: explicit, or the device's defaults."""

from __future__ import annotations

from workbench.core.batch_defaults import (
    A100,
    CPU,
    SCHEDULER_MAX_NUM_BATCHED_TOKENS,
    batch_sizes,
    defaults_text,
    device_tier,
    excepts,
    is_certain,
)
from workbench.core.problems import ERROR, WARNING
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

TOKENS = Rule(
    "max_num_batched_tokens",
    "Token budget of a step",
    "explicit, else the default of the device under `vllm serve`, at most max_num_seqs * "
    "max_model_len",
    "tokens",
)
SEQUENCES = Rule(
    "max_num_seqs",
    "Sequences of a step",
    "explicit, else the default of the device under `vllm serve`, at most max_num_batched_tokens",
    "sequences",
)
CPU_MLA_TOKENS = Rule(
    "cpu_mla_max_num_batched_tokens",
    "Token budget without chunked prefill",
    f"max(max_model_len, {SCHEDULER_MAX_NUM_BATCHED_TOKENS}), whatever was explicit",
    "tokens",
)


def token_budget(run: WorkingPlan) -> None:
    """Decide the token budget and the number of sequences; the budget must hold all of them."""
    settings = run.settings
    tier = device_tier(run.rules.batch_tiers, settings)
    tokens, sequences = batch_sizes(tier, settings, run.max_model_len)
    run.max_num_batched_tokens, run.max_num_seqs = tokens, sequences
    _step(run, TOKENS, tokens, settings.max_num_batched_tokens)
    _step(run, SEQUENCES, sequences, settings.max_num_seqs)
    if sequences > tokens:
        _budget_below_sequences(run)


def _step(run: WorkingPlan, rule: Rule, size: int, explicit: int | None) -> None:
    memory = run.settings.device_memory_bytes
    note = "" if explicit else _assumption(run)
    run.step(rule, size, note, explicit=explicit, device_memory_bytes=memory)


def _assumption(run: WorkingPlan) -> str:
    """Return what the defaults rest on beyond the scenario."""
    if run.platform.name == CPU:
        return ""
    memory = run.settings.device_memory_bytes
    if memory is None:
        return "device memory not given: those of a small device"
    if run.capability != A100 or not excepts(run.rules.batch_tiers, A100, memory):
        return ""
    return "compute capability 8.0 is taken for an A100"


def depends_on_device(run: WorkingPlan, field: str) -> str:
    """Return a sentence with the defaults of `field`, where they depend on an unknown device.

    Empty where the value is certain; what is certain may be an error, what is not a warning.
    """
    facts = (field, run.rules.batch_tiers, run.settings, run.max_model_len)
    if is_certain(*facts):
        return ""
    return (
        f" The default of {field} depends on the device's memory, which is not given: "
        f"{defaults_text(*facts)}. Set device_memory_bytes or {field}."
    )


def _budget_below_sequences(run: WorkingPlan) -> None:
    tokens, sequences = run.max_num_batched_tokens, run.max_num_seqs
    unknown = depends_on_device(run, "max_num_batched_tokens")
    run.problem(
        "max_num_seqs_above_budget",
        "max_num_seqs",
        f"Invalid max_num_seqs {sequences:,}. Expected at most max_num_batched_tokens = "
        f"{tokens:,}: every sequence of a step takes a token. Nearest valid value: {tokens:,}."
        f"{unknown}",
        severity=WARNING if unknown else ERROR,
        operands={"max_num_seqs": sequences, "max_num_batched_tokens": tokens},
        vllm_text=f"max_num_batched_tokens ({tokens}) must be greater than or equal to "
        f"max_num_seqs ({sequences}).",
        candidates=({"max_num_seqs": tokens}, {"max_num_batched_tokens": sequences}),
    )


def cpu_mla_token_budget(run: WorkingPlan) -> None:
    """Raise the token budget to a whole prompt for CPU MLA without AMX.

    It has no chunked prefill.
    """
    attention, settings = run.model.attention, run.settings
    if run.platform.name != CPU or attention is None or not attention.use_mla:
        return
    if "AMX_MLA" in run.rules.backends and settings.backend != "CPU_MLA":
        return
    before = run.max_num_batched_tokens
    run.max_num_batched_tokens = max(run.max_model_len, SCHEDULER_MAX_NUM_BATCHED_TOKENS)
    run.step(CPU_MLA_TOKENS, run.max_num_batched_tokens, before=before)

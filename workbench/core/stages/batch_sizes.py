"""The token budget of a step and the number of sequences: explicit, or the device's defaults."""

from workbench.core.batch_defaults import (
    A100,
    CPU,
    SCHEDULER_MAX_NUM_BATCHED_TOKENS,
    batch_sizes,
    depends_on_device,
    device_tier,
)
from workbench.core.devices import driver_memory_of
from workbench.core.problems import ERROR, WARNING
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

TOKENS = Rule(
    "max_num_batched_tokens",
    "Token budget of a step",
    "explicit, else the default of the device and the entry point, at most max_num_seqs * "
    "max_model_len",
    "tokens",
)
SEQUENCES = Rule(
    "max_num_seqs",
    "Sequences of a step",
    "explicit, else the default of the device and the entry point, at most max_num_batched_tokens",
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
    tokens, sequences = batch_sizes(run, device_tier(run))
    run.max_num_batched_tokens, run.max_num_seqs = tokens, sequences
    _step(run, TOKENS, tokens, settings.max_num_batched_tokens)
    _step(run, SEQUENCES, sequences, settings.max_num_seqs)
    # every running sequence takes a token of each step
    if sequences > tokens:
        _budget_below_sequences(run)


def _step(run: WorkingPlan, rule: Rule, size: int, explicit: int | None) -> None:
    memory = driver_memory_of(run.settings)
    note = "" if explicit else _assumption(run, memory)
    run.step(
        rule,
        size,
        note,
        explicit=explicit,
        device_memory_bytes=memory,
        entry_point=run.settings.entry_point,
    )


def _assumption(run: WorkingPlan, memory: int | None) -> str:
    """Return what the defaults rest on beyond the scenario."""
    if run.platform.name == CPU:
        return ""
    if memory is None:
        return "device memory not given: those of a small device"
    misses_a_tier = any(
        memory >= tier.device_memory_bytes and A100 in tier.excepted
        for tier in run.rules.batch_tiers
    )
    taken = run.device is None and run.capability == A100.capability and misses_a_tier
    return "compute capability 8.0 is taken for an A100" if taken else ""


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
        # Raised by SchedulerConfig.verify_max_model_len
        vllm_text=f"max_num_batched_tokens ({tokens}) must be greater than or equal to "
        f"max_num_seqs ({sequences}).",
        candidates=({"max_num_seqs": tokens}, {"max_num_batched_tokens": sequences}),
    )


def cpu_mla_token_budget(run: WorkingPlan) -> None:
    """Raise the token budget to a whole prompt for CPU MLA without AMX: no chunked prefill."""
    attention, settings = run.model.attention, run.settings
    if run.platform.name != CPU or attention is None or not attention.use_mla:
        return
    # 0.33: AMX_MLA reads prefixes, so that prefill can be cut into chunks
    if "AMX_MLA" in run.rules.backends and settings.backend != "CPU_MLA":
        return
    before = run.max_num_batched_tokens
    run.max_num_batched_tokens = max(run.max_model_len, SCHEDULER_MAX_NUM_BATCHED_TOKENS)
    run.step(CPU_MLA_TOKENS, run.max_num_batched_tokens, before=before)

"""Steps of the scheduler: their token budget, their sequences, and whether they overlap."""

from workbench.core.batch_defaults import (
    A100,
    CPU,
    SCHEDULER_MAX_NUM_BATCHED_TOKENS,
    batch_sizes,
    chunks_prompts,
    depends_on_device,
    device_tier,
)
from workbench.core.capacity.graph_sizes import capture_sizes, captures_graphs
from workbench.core.devices import driver_memory_of
from workbench.core.problems import ERROR, WARNING
from workbench.core.runner import waits_for
from workbench.core.speculation import DRAFT_MODEL, NAMES
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

MANY_SEQUENCES, DIFFUSION_SEQUENCES = 128, 8
"""Sequences from which a diffusion model takes fewer (`SchedulerConfig.DEFAULT_MAX_NUM_SEQS`)."""
TOKENS = Rule(
    "max_num_batched_tokens",
    "Max batched tokens",
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
    "Max batched tokens without chunked prefill",
    f"max(max_model_len, {SCHEDULER_MAX_NUM_BATCHED_TOKENS}), whatever was explicit",
    "tokens",
)


def token_budget(run: WorkingPlan) -> None:
    """Decide the token budget and the number of sequences; the budget must hold all of them."""
    settings = run.settings
    tokens, sequences = batch_sizes(run, device_tier(run))
    attention = run.model.attention
    if attention is not None and attention.canvas_tokens and sequences >= MANY_SEQUENCES:
        # DiffusionGemmaModelForBlockDiffusionConfig, 0.33: also an explicit number that large.
        sequences = DIFFUSION_SEQUENCES
    run.max_num_batched_tokens, run.max_num_seqs = tokens, sequences
    _step(run, TOKENS, tokens, settings.max_num_batched_tokens)
    _step(run, SEQUENCES, sequences, settings.max_num_seqs)
    # SchedulerConfig.__post_init__: next to an encoder never, whatever is explicit
    whole = run.model.is_encoder_decoder or not chunks_prompts(run)
    if whole and tokens < run.max_model_len:
        _budget_below_length(run)
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


def _budget_below_length(run: WorkingPlan) -> None:
    tokens, length = run.max_num_batched_tokens, run.max_model_len
    is_whole = run.model.is_encoder_decoder
    who = "in an encoder-decoder model" if is_whole else "without chunked prefill"
    run.problem(
        "max_num_batched_tokens_below_length",
        operands={"max_num_batched_tokens": tokens, "max_model_len": length},
        candidates=(
            {"max_num_batched_tokens": length},
            {"max_num_batched_tokens": None},
            {"max_model_len": tokens},
        ),
        who=who,
    )


def _budget_below_sequences(run: WorkingPlan) -> None:
    tokens, sequences = run.max_num_batched_tokens, run.max_num_seqs
    unknown = depends_on_device(run, "max_num_batched_tokens")
    run.problem(
        "max_num_seqs_above_budget",
        operands={"max_num_seqs": sequences, "max_num_batched_tokens": tokens},
        candidates=({"max_num_seqs": tokens}, {"max_num_batched_tokens": sequences}),
        severity=WARNING if unknown else ERROR,
        unknown=unknown,
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


def slots_of_drafts(run: WorkingPlan) -> None:
    """Refuse steps that the places of drafted tokens fill (0.23)."""
    # SpeculativeConfig.max_num_new_slots_for_drafting, and _set_max_num_scheduled_tokens.
    method, drafts = run.speculative_method, run.settings.num_speculative_tokens
    each = {NAMES["dflash"]: drafts - 1, DRAFT_MODEL: 1}.get(method or "", 0)
    left = run.max_num_batched_tokens - each * run.max_num_seqs
    if not each or left > 0:
        return
    enough = each * run.max_num_seqs + 1
    run.problem(
        "no_tokens_left_by_drafts",
        operands={"max_num_seqs": run.max_num_seqs, "slots": each, "left": left},
        candidates=({"max_num_batched_tokens": enough},),
        method=method,
        enough=enough,
    )


def graph_sizes(run: WorkingPlan) -> None:
    """Refuse a largest graph that is not the largest of the given ones."""
    # VllmConfig._set_cudagraph_sizes
    largest, given = run.settings.max_cudagraph_capture_size, run.settings.cudagraph_capture_sizes
    if largest is None or not given or not captures_graphs(run):
        return
    kept = max(capture_sizes(run), default=0)
    if kept != largest:
        run.problem(
            "graph_sizes_differ", operands={"max_cudagraph_capture_size": largest, "largest": kept}
        )


def async_scheduling(run: WorkingPlan) -> None:
    """Refuse async scheduling where the runner waits for drafts or stages. Errors: Refused."""
    rules, reason = run.rules.speculation, waits_for(run)
    if not run.settings.async_scheduling or not reason:
        return
    if run.speculative_method in rules.waits_by_default:
        return
    raise run.refusal(
        "async_scheduling_not_supported",
        operands={"async_scheduling": True, "waits_for": reason},
        vllm_text=rules.async_refusal,
    )

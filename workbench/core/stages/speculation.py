"""Which method of speculative decoding drafts tokens, and what vLLM says against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.core.errors import Refused, unknown_name_message
from workbench.core.model import Model
from workbench.core.rule_set import RULE_SETS
from workbench.core.runner import model_runner
from workbench.core.speculation import DRAFT_MODEL, HIDDEN_STATES, MTP, NGRAM, SpeculationRules
from workbench.core.stages.drafter_checks import check_drafter, check_embedding, check_hidden_states
from workbench.core.stages.image_token import check_image_token
from workbench.core.stages.mtp_checks import check_own_drafts, runs_mtp
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

SPECULATIVE_METHOD = Rule(
    "speculative_method",
    "Speculative method",
    "the explicit one; else what the draft model's name and class say; else mtp where the "
    "checkpoint has such layers, else ngram",
)
DRAFTS_OF_HIDDEN_STATES = 1
"""What `extract_hidden_states` proposes a step."""
DRAFT_LENGTH = Rule(
    "draft_max_model_len",
    "Longest request that the draft model follows",
    "the smaller of both models' longest requests",
    "tokens",
)


def speculative_method(run: WorkingPlan) -> None:
    """Set `run.speculative_method` and `run.drafter`; None where nothing drafts.

    Errors: Refused for a method that this version does not have, and for a drafter that it cannot
    run.
    """
    settings, rules = run.settings, run.rules.speculation
    tokens, explicit = settings.num_speculative_tokens, settings.speculative_method
    if tokens and settings.draft_kv_cache_dtype and not rules.takes_kv_cache_dtype:
        raise _without_own_dtype(run)
    if explicit is not None and explicit not in rules.methods:
        raise _unknown(run, explicit)
    if settings.hidden_state_layers:
        _one_method(run)
        # extracting hidden states is a speculative method too, with a cache of its own
        run.speculative_method = HIDDEN_STATES
        _one_draft(run)
        check_own_drafts(run, HIDDEN_STATES)
        check_hidden_states(run, HIDDEN_STATES)
        return
    if not tokens:
        if explicit is not None or run.model.drafter is not None:
            _without_tokens(run, explicit)
        return
    method = method_for(run.model, settings, rules)
    assert method is not None
    given = settings.pipeline_layers
    run.drafter = rules.drafter(
        run.model, method, settings.pipeline_parallel, None if given is None else tuple(given)
    )
    if method == MTP and run.model.mtp is not None and run.model.mtp.is_cut:
        run.drafter = rules.cut_drafter(run.model, tokens)
    run.speculative_method = method
    check_own_drafts(run, method)
    check_drafter(run, method)
    check_image_token(run, method)
    check_embedding(run, method)
    check_hidden_states(run, method)
    run.step(
        SPECULATIVE_METHOD,
        method,
        explicit=explicit,
        draft_model=run.model.drafter and run.model.drafter.name,
        num_speculative_tokens=tokens,
        mtp_layers=len(run.model.mtp.layers) if run.model.mtp is not None else 0,
        drafter_layers=0 if run.drafter is None else len(run.drafter.layers),
    )
    _limit_length(run)
    _not_counted(run, method)


def method_for(model: Model, settings: Settings, rules: SpeculationRules) -> str | None:
    """Return the method that a scenario drafts with; None without speculative decoding."""
    if settings.hidden_state_layers:
        return HIDDEN_STATES
    if not settings.num_speculative_tokens:
        return None
    explicit, draft = settings.speculative_method, model.drafter
    if draft is None:
        return explicit or (MTP if runs_mtp(model, rules) else NGRAM)
    # The name or the class of the draft model decides, except against a head or no model at all.
    known = None if explicit is None else rules.methods.get(explicit)
    if known is not None and (known.class_name is not None or not known.reads_model):
        return explicit
    return rules.detected(draft, explicit or DRAFT_MODEL)


def followed_length(run: WorkingPlan) -> int | None:
    """Return the longest request that a draft model follows, None without a limit below L."""
    return None if run.speculative_method != DRAFT_MODEL else _draft_length(run)


def _draft_length(run: WorkingPlan) -> int | None:
    """Return the longest request of a second checkpoint, None without a limit below L."""
    if (draft := run.model.drafter) is None:
        return None
    as_written = draft.derived_max_model_len if run.rules.yarn_stretches else draft.yarn_as_written
    derived = as_written or draft.derived_max_model_len
    if derived is None:  # it takes the target's
        return None
    longest = draft.default_max_model_len or derived
    return longest if longest < run.max_model_len else None


def _limit_length(run: WorkingPlan) -> None:
    """Shorten the longest request to the draft model's, which cannot draft beyond it (0.33)."""
    # VllmConfig._limit_max_model_len_to_draft; a head that stretches has the target's positions.
    draft, head = run.model.drafter, run.model.draft_head
    stretches = run.speculative_method != DRAFT_MODEL and (head is None or head.stretches)
    limits = run.rules.speculation.limits_length and model_runner(run) == "v2" and not stretches
    if draft is None or not limits or (longest := _draft_length(run)) is None:
        return
    run.step(DRAFT_LENGTH, longest, max_model_len=run.max_model_len, draft_model=draft.name)
    run.log(
        f"The draft model's max_model_len ({longest}) is smaller than the target model's "
        f"({run.max_model_len}) and the V2 model runner can't skip speculation for longer "
        f"sequences; reducing max_model_len to {longest}."
    )
    run.max_model_len = longest


def _unknown(run: WorkingPlan, method: str) -> Refused:
    names = run.rules.speculation.names
    return run.refusal(
        "speculative_method_unknown",
        operands={"speculative_method": method, "allowed": list(names)},
        candidates=[{"speculative_method": None}, {"speculative_method": NGRAM}],
        message_of_name=unknown_name_message("speculative_method", method, names),
    )


def _without_own_dtype(run: WorkingPlan) -> Refused:
    able = [name for name, rules in RULE_SETS.items() if rules.speculation.takes_kv_cache_dtype]
    return run.refusal(
        "draft_kv_cache_dtype_unknown",
        operands={"draft_kv_cache_dtype": run.settings.draft_kv_cache_dtype},
        candidates=[{"draft_kv_cache_dtype": None}, *({"rules": name} for name in able)],
        known=" or ".join(able),
    )


def _one_method(run: WorkingPlan) -> None:
    """Refuse `hidden_state_layers` with another method: a server has one."""
    method = run.settings.speculative_method
    if method is None:
        return
    run.problem(
        "two_speculative_methods",
        operands={
            "speculative_method": method,
            "hidden_state_layers": run.settings.hidden_state_layers,
        },
        hidden_states=HIDDEN_STATES,
    )


def _one_draft(run: WorkingPlan) -> None:
    """Check that `extract_hidden_states` proposes one token per step."""
    tokens = run.settings.num_speculative_tokens
    if tokens == DRAFTS_OF_HIDDEN_STATES:
        return
    text = "extract_hidden_states requires num_speculative_tokens to be 1"
    if not tokens:
        text = "Input should be greater than 0"  # SpeculativeConfig, before it reads the method
    run.problem(
        "hidden_states_need_one_draft",
        operands={"num_speculative_tokens": tokens},
        candidates=({"num_speculative_tokens": DRAFTS_OF_HIDDEN_STATES},),
        vllm_text=text if not tokens or model_runner(run) == "v2" else "",
        settings=run.settings,
        drafts_of_hidden_states=DRAFTS_OF_HIDDEN_STATES,
    )


def _without_tokens(run: WorkingPlan, method: str | None) -> None:
    draft = run.model.drafter
    given = f"speculative_method = {method}" if draft is None else f"draft_model = {draft.name}"
    run.problem(
        "speculative_tokens_missing",
        operands={"speculative_method": method, "num_speculative_tokens": 0},
        given=given,
    )


def _not_counted(run: WorkingPlan, method: str) -> None:
    """Warn where the drafter keeps a cache that no number of the plan contains."""
    layers = run.rules.speculation.methods[method].unknown_layers
    if not layers:
        return
    run.problem(
        "drafter_layers_not_counted",
        operands={"speculative_method": method},
        candidates=({"speculative_method": None}, {"speculative_method": NGRAM}),
        layers=layers,
    )

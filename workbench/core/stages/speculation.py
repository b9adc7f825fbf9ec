"""Which method of speculative decoding drafts tokens, and what vLLM says against it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.core.errors import Refused, unknown_name_message
from workbench.core.model import Model, Mtp
from workbench.core.problems import WARNING
from workbench.core.speculation import HIDDEN_STATES, MTP, NGRAM, SpeculationRules
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

SPECULATIVE_METHOD = Rule(
    "speculative_method",
    "Speculative method",
    "the explicit one; else mtp where the checkpoint has such layers, else ngram",
)
UNSUPPORTED = "Unsupported speculative method: 'mtp'"


def speculative_method(run: WorkingPlan) -> None:
    """Set `run.speculative_method`; None where nothing drafts.

    Errors: Refused for a method that this version does not have, and for mtp where it cannot run.
    """
    settings = run.settings
    tokens, explicit = settings.num_speculative_tokens, settings.speculative_method
    if explicit is not None and explicit not in run.rules.speculation.methods:
        raise _unknown(run, explicit)
    if settings.hidden_state_layers:
        _one_method(run)
        # extracting hidden states is a speculative method too, with a cache of its own
        run.speculative_method = HIDDEN_STATES
        return
    if not tokens:
        if explicit is not None:
            _without_tokens(run, explicit)
        return
    method = method_for(run.model, settings, run.rules.speculation)
    assert method is not None
    if method == MTP:
        _check_mtp(run)
    run.speculative_method = method
    run.step(
        SPECULATIVE_METHOD,
        method,
        explicit=explicit,
        num_speculative_tokens=tokens,
        mtp_layers=len(run.model.mtp.layers) if run.model.mtp is not None else 0,
    )
    _not_counted(run, method)


def method_for(model: Model, settings: Settings, rules: SpeculationRules) -> str | None:
    """Return the method that a scenario drafts with; None without speculative decoding."""
    if settings.hidden_state_layers:
        return HIDDEN_STATES
    if not settings.num_speculative_tokens:
        return None
    return settings.speculative_method or (MTP if _runs_mtp(model, rules) else NGRAM)


def _runs_mtp(model: Model, rules: SpeculationRules) -> bool:
    """Return whether this version drafts with the checkpoint's own MTP layers."""
    mtp = model.mtp
    return mtp is not None and mtp.model_type in rules.mtp_model_types and bool(mtp.layers)


def _unknown(run: WorkingPlan, method: str) -> Refused:
    names = run.rules.speculation.names
    return Refused(
        "speculative_method_unknown",
        f"{unknown_name_message('speculative_method', method, names)} {run.rules.title} has no "
        "such method.",
        field="speculative_method",
        operands={"speculative_method": method, "allowed": list(names)},
        candidates=[{"speculative_method": None}, {"speculative_method": NGRAM}],
        vllm_text="1 validation error for SpeculativeConfig",
    )


def _one_method(run: WorkingPlan) -> None:
    """Refuse `hidden_state_layers` with another method: a server has one."""
    method = run.settings.speculative_method
    if method is None:
        return
    run.problem(
        "two_speculative_methods",
        "speculative_method",
        f"hidden_state_layers = {run.settings.hidden_state_layers} uses the speculative method "
        f"{HIDDEN_STATES}, and a server has one method: speculative_method = {method} cannot be "
        "used as well. Set one of the two.",
        operands={
            "speculative_method": method,
            "hidden_state_layers": run.settings.hidden_state_layers,
        },
        candidates=({"speculative_method": None}, {"hidden_state_layers": 0}),
    )


def _without_tokens(run: WorkingPlan, method: str) -> None:
    run.problem(
        "speculative_tokens_missing",
        "num_speculative_tokens",
        f"speculative_method = {method} has no effect: num_speculative_tokens is 0, which switches "
        "speculative decoding off. Set it to 1 or more.",
        severity=WARNING,
        operands={"speculative_method": method, "num_speculative_tokens": 0},
        candidates=({"num_speculative_tokens": 1}, {"speculative_method": None}),
    )


def _check_mtp(run: WorkingPlan) -> None:
    """Refuse mtp as vLLM does: no such layers, too many, or tokens that they cannot draft."""
    mtp = run.model.mtp
    if mtp is None or not _runs_mtp(run.model, run.rules.speculation):
        raise _no_layers(run, mtp)
    declared = mtp.predictions
    if mtp.max_predictions is not None and declared != mtp.max_predictions:
        raise Refused(
            "mtp_layers_above_limit",
            f"{run.model.name} declares {declared} MTP predictions; vLLM's drafter for this "
            f"architecture runs {mtp.max_predictions} only. Use another method, for example ngram.",
            field="speculative_method",
            operands={"mtp_layers": declared},
            candidates=_without_mtp(run),
            # Raised by NemotronHMultiTokenPredictor.__init__
            vllm_text="Only one MTP layer is supported for NemotronH-MTP",
        )
    # a version that looks at the top of config.json only finds no n_predict, and tests nothing
    if mtp.is_nested and not run.rules.speculation.reads_nested_predictions:
        return
    tokens = run.settings.num_speculative_tokens
    # SpeculativeConfig.__post_init__: the layers draft in turn, so the tokens must be whole rounds
    if declared is not None and tokens > declared and tokens % declared:
        below = tokens // declared * declared
        raise Refused(
            "speculative_tokens_not_divisible",
            f"num_speculative_tokens = {tokens} must be a multiple of the {declared} MTP layers of "
            f"{run.model.name}, or at most as many. Nearest valid value: {below}.",
            field="num_speculative_tokens",
            operands={"num_speculative_tokens": tokens, "n_predict": declared},
            candidates=[
                {"num_speculative_tokens": below},
                {"num_speculative_tokens": below + declared},
                {"speculative_method": NGRAM},
            ],
            vllm_text=f"num_speculative_tokens:{tokens} must be divisible by n_predict={declared}",
        )


def _no_layers(run: WorkingPlan, mtp: Mtp | None) -> Refused:
    known = mtp is not None and mtp.model_type in run.rules.speculation.mtp_model_types
    if known or mtp is None or not mtp.layers:
        why = f"{run.model.name} has no MTP layers"
    else:
        why = f"{run.rules.title} does not draft with the MTP layers of {run.model.name}"
    declared_none = known and mtp is not None and mtp.predictions == 0
    # with 0 layers declared vLLM divides by it, and dies without a message of its own
    text = "integer modulo by zero" if declared_none else None if known else UNSUPPORTED
    return Refused(
        "no_mtp_layers",
        f"speculative_method = {MTP} needs layers for multi-token prediction in the checkpoint: "
        f"{why}. Use another method, for example ngram, or set num_speculative_tokens to 0.",
        field="speculative_method",
        operands={"model_type": run.model.model_type if mtp is None else mtp.model_type},
        candidates=_without_mtp(run),
        vllm_text=text,
    )


def _without_mtp(run: WorkingPlan) -> list[dict[str, Any]]:
    """Return the changes that draft in another way, or not at all."""
    explicit = run.settings.speculative_method is not None
    changes: list[dict[str, Any]] = [{"speculative_method": None}] if explicit else []
    return [{"speculative_method": NGRAM}, *changes, {"num_speculative_tokens": 0}]


def _not_counted(run: WorkingPlan, method: str) -> None:
    """Warn where the drafter keeps a cache that no number of the plan contains."""
    layers = run.rules.speculation.methods[method].own_layers
    if not layers:
        return
    run.problem(
        "drafter_layers_not_counted",
        "speculative_method",
        f"The drafter of method {method} has a cache of its own, {layers}, which is not modelled "
        "yet. It is missing from the groups: num_blocks, max_concurrency and the sizes per block "
        "are those of the target model alone. vLLM will have fewer blocks, and may group the "
        "layers in another way.",
        severity=WARNING,
        operands={"speculative_method": method},
        candidates=({"speculative_method": None}, {"speculative_method": NGRAM}),
    )

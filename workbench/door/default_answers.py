"""What a field or a flag of vLLM is by default, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from workbench.core.batch_defaults import chunks_prompts
from workbench.core.plan import Plan
from workbench.core.remedies import ENGINE
from workbench.core.runner import is_async
from workbench.core.what_if.outcomes import outcome_of
from workbench.interop.commands.flags import flags_of
from workbench.interop.commands.not_modelled import effect
from workbench.scenario import FIELDS
from workbench.scenario.field import Field, argument_name
from workbench.views.settings import setting_text

DECIDED: Mapping[str, Callable[[Plan], Any]] = {
    "enable_chunked_prefill": chunks_prompts,
    "async_scheduling": is_async,
    "dtype": attrgetter("model_dtype"),
}
"""Field -> what vLLM makes of it, where the plan has another name for that, or none."""


def default_answer(name: str, plan: Plan) -> str:
    """Return what a field, or a flag that begins with dashes, is by default."""
    return _of_flag(name, plan) if name.startswith("--") else _of_field(FIELDS[name], plan)


def _of_flag(flag: str, plan: Plan) -> str:
    known = flags_of(plan.settings.rules)
    if flag not in known.kinds:
        return f"{flag}: {known.unknown(flag, is_helped=True)}"
    what = "an object of settings"
    if flag in known.defaults:
        value = known.defaults[flag]
        what = "not set" if value in {None, ""} else _plain(value)
    keys = [one.label for one in FIELDS.values() if one.flag.startswith(f"{flag}.")]
    reason = effect(argument_name(flag), "set")
    matters = (
        f"A different value matters: {reason}." if reason else "It changes no size of the cache."
    )
    if keys:
        matters = f"It has these fields: {', '.join(keys)}."
    return f"{flag}: {what} by default in vLLM {known.release}. {matters}"


def _of_field(field: Field, plan: Plan) -> str:
    unset = outcome_of(plan.model, plan.settings, **{field.name: field.default}).plan or plan
    of_flag = flags_of(plan.settings.rules).defaults.get(field.flag)
    default = field.default if of_flag is None or field.default is not None else of_flag
    said = "not set" if default is None else setting_text(field.name, default)
    made, means = _made(field.name, unset), ""
    if made is not None and made != default:
        steps = [one for one in unset.steps if one.rule.name == field.name]
        why = "".join(f" ({one})" for one in steps[-1:])
        here = setting_text(field.name, made)
        means = f"; for {plan.model.name} here that means {here}{why}"
    elif default is None and field.none != ENGINE:
        means = f", which means: {field.none}"
    present = getattr(plan.settings, field.name)
    now = "" if present == field.default else f" Now it is {setting_text(field.name, present)}."
    return f"{field.label}: {said} by default in {plan.rules.title}{means}.{now} {field.tip}."


def _made(name: str, plan: Plan) -> Any:
    """Return what vLLM decides for a field that is not set; None where it decides nothing."""
    made = DECIDED.get(name, lambda one: getattr(one, name, None))(plan)
    return made if isinstance(made, bool | int | str) else None


def _plain(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)

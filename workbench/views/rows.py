"""Table rows and labelled facts for HTML, text and the command line."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from workbench.core.block_sizes import describe
from workbench.core.plan import Plan
from workbench.core.trace import Step, show
from workbench.core.what_if.sensitivity import Change
from workbench.views.token_bytes import keeps_entries, token_bytes
from workbench.views.units import bytes_text, percent_text, tokens_text


class PlanFact(NamedTuple):
    """One number of a plan: its published name, its label, its text."""

    name: str
    label: str
    text: str


PER_ENTRY = "KV bytes per entry per layer"
"""Label of the bytes of compressed attention, whose entries are of several tokens."""
ENTRY_BYTES = "attention_bytes_per_token"
ATTENTION_FACTS = (
    (ENTRY_BYTES, bytes_text),
    ("attention_page_size_bytes", bytes_text),
)
MAMBA_FACTS = (
    ("mamba_page_size_bytes", bytes_text),
    ("padding_percent", percent_text),
    ("mamba_cache_mode", str),
    ("mamba_block_size", tokens_text),
)
"""Field of a plan, and how its value is written."""


def plan_facts(plan: Plan) -> tuple[PlanFact, ...]:
    """Return the most important numbers; parts that the model lacks are omitted."""
    facts = []
    if plan.attention_bytes_per_token is not None:
        facts.append(_fact("kernel_block_size", _kernel_block(plan)))
        facts += [_of_attention(plan, name, text) for name, text in ATTENTION_FACTS]
    if plan.mamba_page_size_bytes is not None:
        facts += [_fact(name, text(getattr(plan, name))) for name, text in MAMBA_FACTS]
    caching = "on" if plan.enable_prefix_caching else "off"
    facts.append(_fact("enable_prefix_caching", caching))
    if plan.is_hybrid and not plan.attention_bytes_per_token:
        facts.append(_fact("alignment", "not needed: no attention layer"))
    return tuple(facts)


def _of_attention(plan: Plan, name: str, text: Callable[[Any], str]) -> PlanFact:
    is_token = name == ENTRY_BYTES
    fact = _fact(name, text(token_bytes(plan) if is_token else getattr(plan, name)))
    return fact._replace(label=PER_ENTRY) if is_token and keeps_entries(plan) else fact


def _fact(name: str, text: str) -> PlanFact:
    return PlanFact(name, Plan.label_of(name), text)


ASSUMED = "Absent from config.json, so the family's default:"
"""What is written before assumptions."""


def assumptions(plan: Plan) -> tuple[str, ...]:
    """Return the model's numbers that config.json does not hold, as sentences."""
    origins = plan.model.origins.values()
    return tuple(str(origin) for origin in origins if "family's default" in origin.source)


def begun(text: str | None) -> str | None:
    """Return how a message begins, as such; None without one, or for a single word of one."""
    words = (text or "").rstrip(" .")
    return f"{words}..." if " " in words else None


def result_text(step: Step) -> str:
    """Return the result of a step with its unit."""
    unit = f" {step.rule.unit}" if step.rule.unit and step.result is not None else ""
    return show(step.result) + unit


def outcome_row(field: str, value: Any, plan: Plan) -> dict[str, Any]:
    """Return what a changed field leads to."""
    return {
        "field": field,
        "value": value,
        "block_size": plan.block_size,
        "padding_bytes": plan.padding_bytes,
        "padding_percent": plan.padding_percent,
        "kernel_block_size": plan.kernel_block_size,
        "errors": [problem.code for problem in plan.errors],
    }


def sensitivity_rows(changes: Iterable[Change]) -> tuple[dict[str, Any], ...]:
    """Return one row per change that has a plan: field, value, and the outcome."""
    return tuple(
        outcome_row(change.field, change.value, change.plan)
        for change in changes
        if change.plan is not None
    )


def _kernel_block(plan: Plan) -> str:
    if plan.backend is None:
        return "none: no backend supports this"
    if plan.kernel_block_size is None:
        sizes = ", ".join(map(str, describe(plan.supported_kernel_block_sizes)))
        return f"none of {sizes} fits"
    ratio = plan.kernel_blocks_per_block
    return f"{tokens_text(plan.kernel_block_size)} ({ratio} in a block)"

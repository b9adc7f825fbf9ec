"""Table rows and labelled facts for HTML, text and the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from workbench.core.block_sizes import describe
from workbench.core.plan import Plan
from workbench.core.what_if.sensitivity import Change
from workbench.views.units import bytes_text, percent_text, tokens_text


class PlanFact(NamedTuple):
    """One number of a plan: its published name, its label, its text."""

    name: str
    label: str
    text: str


def plan_facts(plan: Plan) -> tuple[PlanFact, ...]:
    """Return the most important numbers; parts that the model lacks are omitted."""
    facts = [
        PlanFact("kernel_block_size", "kernel block", _kernel_block(plan)),
        PlanFact(
            "attention_bytes_per_token",
            "attention, one token",
            bytes_text(plan.attention_bytes_per_token),
        ),
        PlanFact(
            "attention_page_size_bytes",
            "attention page",
            bytes_text(plan.attention_page_size_bytes),
        ),
    ]
    if plan.attention_bytes_per_token is None:
        facts = []
    if plan.mamba_page_size_bytes is not None:
        facts += [
            PlanFact(
                "mamba_page_size_bytes", "mamba state", bytes_text(plan.mamba_page_size_bytes)
            ),
            PlanFact("padding_percent", "padding", percent_text(plan.padding_percent)),
            PlanFact("mamba_cache_mode", "cache mode", plan.mamba_cache_mode),
            PlanFact("mamba_block_size", "mamba block", tokens_text(plan.mamba_block_size)),
        ]
    facts.append(
        PlanFact(
            "enable_prefix_caching",
            "prefix caching",
            "on" if plan.enable_prefix_caching else "off",
        )
    )
    if plan.is_hybrid and not plan.attention_bytes_per_token:
        facts.append(PlanFact("alignment", "alignment", "not needed: no attention layer"))
    return tuple(facts)


def assumptions(plan: Plan) -> tuple[str, ...]:
    """Return the model's numbers that config.json does not hold, as sentences."""
    return tuple(line for line in plan.model.origins.values() if "family's default" in line)


def sensitivity_rows(changes: Iterable[Change]) -> tuple[dict[str, Any], ...]:
    """Return one row per change: field, value, and the outcome."""
    return tuple(
        {
            "field": change.field,
            "value": change.value,
            "block_size": change.plan.block_size,
            "padding_bytes": change.plan.padding_bytes,
            "padding_percent": change.plan.padding_percent,
            "kernel_block_size": change.plan.kernel_block_size,
            "errors": [problem.code for problem in change.plan.errors],
        }
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

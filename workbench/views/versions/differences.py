"""Two rule sets compared: text, tables, and the catalog's matrix of upgrades."""

from collections.abc import Iterable, Sequence
from typing import Any

from workbench.core.trace import Step, show
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.differences import Comparison, Difference
from workbench.core.what_if.facts import FACTS
from workbench.core.what_if.outcomes import Outcome
from workbench.views.html import Html, document, faint, fold, table, tag
from workbench.views.settings import in_labels
from workbench.views.units import bytes_text

UNCHANGED = "No number of this scenario changes."


def value_text(value: Any, unit: str) -> str:
    """Return one number of the comparison with its unit."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if unit == "bytes":
        return bytes_text(value)
    number = f"{value:,.2f}" if isinstance(value, float) else show(value)
    return f"{number}{unit}" if unit == "x" else f"{number} {unit}".rstrip()


def why_text(difference: Difference) -> str:
    """Return the step where the results diverge, on both sides, and the newer rule's source."""
    if difference.memory is not None:
        one, other = (bytes_text(size) if size > 0 else "none" for size in difference.memory)
        return f"the memory for the cache: {one} -> {other}"
    step = difference.after or difference.before
    if step is None:
        return "how layers are grouped and blocks are counted"
    before, after = difference.before, difference.after
    sides = f"{_side(before, after)} -> {_side(after, before)}"
    return f"{step.rule.title}: {sides} ({step.source})"


def _side(step: Step | None, other: Step | None) -> str:
    """Return the result, and the operands that the other side does not have."""
    if step is None:
        return "no such step"
    known = {} if other is None else other.operands
    operands = ", ".join(
        f"{name}={show(value)}"
        for name, value in step.operands.items()
        if name not in known or known[name] != value
    )
    details = "; ".join(filter(None, (operands, step.note)))
    return f"{show(step.result)} ({details})" if details else show(step.result)


def outcome_text(outcome: Outcome) -> str:
    """Return whether it starts, and if not, why."""
    title = RULE_SETS[outcome.rules].title
    if outcome.refused is not None:
        return f"{title}: refused. {outcome.refused}"
    if outcome.errors:
        return f"{title}: would not start ({', '.join(outcome.errors).replace('_', ' ')})"
    return f"{title}: starts"


def differences_text(comparison: Comparison) -> str:
    """Return the comparison for a terminal."""
    old, new = comparison.old.rules, comparison.new.rules
    lines = [f"{comparison.model.name}: {old} -> {new}", ""]
    lines += [f"  {outcome_text(outcome)}" for outcome in (comparison.old, comparison.new)]
    if not comparison.differences and comparison.old.plan and comparison.new.plan:
        lines += ["", UNCHANGED]
    for difference, why in _reasons(comparison.differences):
        unit = difference.fact.unit
        change = f"{value_text(difference.old, unit)} -> {value_text(difference.new, unit)}"
        lines += ["", f"  {difference.fact.label}: {change}"]
        lines += [f"    why: {why}", f"    means: {difference.means}"]
    if comparison.traits:
        lines += ["", "For every scenario:"]
        for trait in comparison.traits:
            lines.append(f"  {trait.label}: {trait.old} -> {trait.new}. {trait.means}")
    return "\n".join(lines)


def differences_html(comparison: Comparison) -> str:
    """Return the comparison as tables: facts that change, then what changes for every scenario."""
    versions = (comparison.old.rules, comparison.new.rules)
    parts = [
        tag("p", "✓ " if outcome.starts else "✕ ", in_labels(outcome_text(outcome)))
        for outcome in (comparison.old, comparison.new)
    ]
    if comparison.differences:
        parts.append(differences_table(versions, comparison.differences))
    elif comparison.old.plan and comparison.new.plan:
        parts.append(tag("p", UNCHANGED))
    if comparison.traits:
        traits = ((trait.label, trait.old, trait.new, trait.means) for trait in comparison.traits)
        listed = table(("", *versions, "what it means"), traits)
        parts.append(fold("What changes for every scenario", listed))
    return document(*parts)


def differences_table(names: tuple[str, str], found: Iterable[Difference]) -> Html:
    """Return one row per fact that two plans, with these names, answer differently."""
    rows = (
        (
            tag("b", one.fact.label),
            value_text(one.old, one.fact.unit),
            value_text(one.new, one.fact.unit),
            one.means,
            faint(why),
        )
        for one, why in _reasons(found)
    )
    head = ("", *names, "what it means", "where the results diverge")
    return tag("div", table(head, rows), class_="wb-differences")


def _reasons(found: Iterable[Difference]) -> Iterable[tuple[Difference, str]]:
    """Yield each difference with its reason; a reason that was given before is only named."""
    labels: dict[str, str] = {}
    for one in found:
        why = why_text(one)
        yield one, f"as for {labels[why]}" if why in labels else why
        labels.setdefault(why, one.fact.label)


def differences_dict(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as JSON-able values, with stable names."""
    differences = []
    for difference in comparison.differences:
        step = difference.after or difference.before
        differences.append(
            {
                "name": difference.fact.name,
                "unit": difference.fact.unit,
                "from": difference.old,
                "to": difference.new,
                "step": step.rule.name if step else None,
                "source": step.source if step else None,
                "means": difference.means,
            }
        )
    return {
        "model": comparison.model.name,
        "from": _outcome_dict(comparison.old),
        "to": _outcome_dict(comparison.new),
        "differences": differences,
        "traits": [
            {"label": trait.label, "from": trait.old, "to": trait.new, "means": trait.means}
            for trait in comparison.traits
        ],
    }


def _outcome_dict(outcome: Outcome) -> dict[str, Any]:
    facts = {name: getattr(outcome, name) for name in ("rules", "starts", "errors", "refused")}
    return {**facts, "errors": list(outcome.errors)}


IN_MATRIX = {
    *("enable_prefix_caching", "block_size", "kernel_block_size", "mamba_page_size_bytes"),
    *("padding_percent", "smallest_prefix", "max_concurrency"),
}
MATRIX_FACTS = tuple(fact for fact in FACTS if fact.name in IN_MATRIX)
"""What the matrix over the catalog shows of every model."""


def matrix_cell(comparison: Comparison, name: str) -> str:
    """Return one cell: empty where nothing changes, else both values."""
    found = next((entry for entry in comparison.differences if entry.fact.name == name), None)
    if found is None:
        return ""
    unit = "" if found.fact.unit in {"tokens", "bytes"} else found.fact.unit
    if found.fact.unit == "bytes":
        return f"{found.old:,} -> {found.new:,}"
    return f"{value_text(found.old, unit)} -> {value_text(found.new, unit)}"


def verdict_cell(comparison: Comparison) -> str:
    """Return how the upgrade changes whether it starts."""
    was, now = comparison.old.starts, comparison.new.starts
    if was and now:
        return "starts"
    if was:
        return f"stops: {', '.join(comparison.new.errors).replace('_', ' ')}"
    return "starts now" if now else "does not start in either"


def matrix_rows(comparisons: Iterable[Comparison]) -> list[tuple[str, ...]]:
    """Return header and rows of the matrix: which models change with an upgrade, and how."""
    header = ("model", "verdict", *(fact.label for fact in MATRIX_FACTS))
    names = [fact.name for fact in MATRIX_FACTS]
    rows = (
        (one.model.name, verdict_cell(one), *(matrix_cell(one, name) for name in names))
        for one in comparisons
    )
    return [header, *rows]


def matrix_text(comparisons: Sequence[Comparison]) -> str:
    """Return the matrix for a terminal: one line per model, only what changes."""
    (_model, _verdict, *labels), *rows = matrix_rows(comparisons)
    lines, width = [], max((len(name) for name, *_ in rows), default=0)
    for comparison, (name, verdict, *cells) in zip(comparisons, rows, strict=True):
        changes = [f"{label} {cell}" for label, cell in zip(labels, cells, strict=True) if cell]
        if not changes and comparison.old.plan and comparison.new.plan:
            changes = ["no number changes"]
        lines.append(f"{name:{width}}  {'; '.join((verdict, *changes))}")
    return "\n".join(lines)


def matrix_html(comparisons: Sequence[Comparison]) -> str:
    """Return the matrix as a table."""
    header, *rows = matrix_rows(comparisons)
    return document(table(header, ((tag("b", name), *cells) for name, *cells in rows)))

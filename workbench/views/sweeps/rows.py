"""The points of a sweep as rows: which columns there are, and how a value is written."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from workbench.core import ranks
from workbench.core.plan import Plan
from workbench.core.what_if.facts import PREFIX
from workbench.scenario.fields import Settings
from workbench.views.html import Html, bullets, code, document, fold, join, note, tag, wide_table
from workbench.views.settings import in_labels, setting_text
from workbench.views.units import bytes_text

Row = Mapping[str, Any]
"""One point: `point` (its number), `sets` (field -> value), what follows, `refused`, `problems`."""

MEASURES: Mapping[str, str] = {
    "concurrency_per_gpu": "concurrency per GPU",
    "max_concurrency": Plan.label_of("max_concurrency"),
    "smallest_prefix_tokens": PREFIX,
    "waste_share": "waste",
    **{name: Plan.label_of(name) for name in ("block_size", "kernel_block_size")},
    "page_size_bytes": "page",
    "num_blocks": Plan.label_of("num_blocks"),
    "startup_warnings": "start-up warnings",
}
"""Column -> what people call it."""
GOALS_IN_WORDS: Mapping[str, str] = {
    "concurrency_per_gpu": "more requests per GPU",
    "smallest_prefix_tokens": "shorter prefixes that hit",
    "waste_share": "less waste",
    "startup_warnings": "fewer start-up warnings",
}
"""Goal of a sweep -> what people want."""
SHORT: Mapping[str, str] = {
    **ranks.SHORT,
    **{name: Plan.label_of(name) for name in ("enable_prefix_caching", "max_num_batched_tokens")},
    "kv_cache_dtype": "KV dtype",
    "mamba_cache_dtype": "mamba conv-state dtype",
    "mamba_ssm_cache_dtype": "mamba SSM-state dtype",
    "num_speculative_tokens": "drafts",
    "speculative_method": "draft method",
    "kv_cache_memory_bytes": "KV-cache memory per GPU",
    "smallest_prefix_tokens": "prefix",
}
"""What fits above a column; fields that are not here keep their name."""
LEFT_OUT = {"kernel_block_size", "page_size_bytes", "startup_warnings"}
IN_TABLE = tuple(name for name in MEASURES if name not in LEFT_OUT)
TRADE_OFFS = (
    *("concurrency_per_gpu", "smallest_prefix_tokens", "waste_share", "startup_warnings"),
    *("block_size", "page_size_bytes"),
)
"""Columns that a trade-off is drawn between: none of them grows with the GPUs."""
UNITS = {
    "concurrency_per_gpu": "requests",
    "max_concurrency": "requests",
    "smallest_prefix_tokens": "tokens",
    "waste_share": "share",
}
PER_GPU_NOTE = (
    "Points are compared by concurrency per GPU (requests of full length that fit, divided by "
    "tensor_parallel), smallest cacheable prefix and waste. The last two do not grow with the "
    "number of GPUs."
)
LACKING = {
    "concurrency_per_gpu": "No concurrency is known without the memory for the KV cache: set a "
    "device, or kv_cache_memory_bytes.",
    "smallest_prefix_tokens": "No prefix hits in any point, so none is compared.",
}
"""What points are compared by -> what to say where none of them has it."""
MORE_THERE = (
    "Each GPU holds fewer weights at a larger tensor_parallel, so a real server has more memory "
    "for its KV cache there"
)
MEMORY_NOTES = {
    "kv_cache_memory_bytes": "Assumed: the same KV-cache memory on every GPU for every "
    f"tensor_parallel. {MORE_THERE}.",
    "weights_bytes": "Assumed: the same weights_bytes on every GPU for every tensor_parallel. "
    f"{MORE_THERE}: set weights_bytes for each.",
    "num_gpu_blocks_override": "Assumed: the same number of blocks for every tensor_parallel, "
    "whatever memory they take.",
}
"""Where the size of the pool comes from -> what a sweep over tensor_parallel assumes of it."""
SHOWN_ROWS = 15


def value_text(name: str, value: Any, *, is_setting: bool = False) -> str:
    """Return a value for people: a dash for what a point does not have.

    is_setting: None leaves it to vLLM.
    """
    if is_setting:
        return "auto" if value is None else setting_text(name, value)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_bytes") and isinstance(value, int):
        return bytes_text(value)
    if isinstance(value, float):
        return format(value, ".2%" if name == "waste_share" else ",.2f")
    return f"{value:,}" if isinstance(value, int) else str(value)


def short_name(field: str) -> str:
    """Return a field as it appears above a narrow column."""
    return SHORT.get(field, field.replace("_", " "))


def point_name(sets: Row) -> str:
    """Return what is set in one line, such as "TP 4, KV dtype fp8"; empty for nothing."""
    return ", ".join(
        f"{short_name(name)} {value_text(name, value, is_setting=True)}"
        for name, value in sets.items()
    )


def axes_of(rows: Sequence[Row], *, several: bool = False) -> tuple[str, ...]:
    """Return what the points set; the model only where there are several."""
    if not rows:
        return ()
    several = several or len({str(row["sets"].get("model")) for row in rows}) > 1
    return tuple(name for name in rows[0]["sets"] if name != "model" or several)


def comparison_notes(
    scenario: Settings, axes: Collection[str], lacking: Collection[str] = ()
) -> tuple[str, ...]:
    """Return what is compared per GPU, and what is assumed of the memory where the GPUs vary.

    lacking: columns that no point has.
    """
    compared = (PER_GPU_NOTE, *(LACKING[name] for name in LACKING if name in lacking))
    if "tensor_parallel" not in axes:
        return compared
    given = [name for name in MEMORY_NOTES if getattr(scenario, name) is not None or name in axes]
    if "num_gpu_blocks_override" in given:
        given = ["num_gpu_blocks_override"]
    return (*compared, *(MEMORY_NOTES[name] for name in given[:1]))


def notes_html(notes: Iterable[str]) -> str:
    """Return notes as faint paragraphs."""
    return document(*map(note, map(in_labels, notes)))


def sweep_table_html(rows: Sequence[Row], front: Sequence[int] = ()) -> str:
    """Return the first rows as a table; a sign marks the Pareto front. front: point numbers."""
    if not rows:
        lost = "No point is left: every one is illegal or equals another one."
        return document(tag("p", lost))
    axes = axes_of(rows)
    settings = (f"set: {short_name(name)}" for name in axes)
    header = ("", "point", *(MEASURES[name] for name in IN_TABLE), "backend", *settings)
    body = (
        (
            "◆" if row["point"] in front else "",
            str(row["point"]),
            *(_cell(value_text(name, row[name])) for name in (*IN_TABLE, "backend_used")),
            *(_cell(value_text(name, row["sets"][name], is_setting=True)) for name in axes),
        )
        for row in rows[:SHOWN_ROWS]
    )
    left = len(rows) - SHOWN_ROWS
    cut = f"; {left:,} more are not shown" if left > 0 else ""
    return document(
        wide_table(header, body),
        note(f"◆ Pareto-optimal: no other point is better in every goal{cut}"),
    )


def _cell(text: str) -> Html:
    return tag("span", text, style="white-space: nowrap")


def counts_html(counts: Mapping[str, int], reasons: Mapping[str, int]) -> str:
    """Return how many points there are, and how many were omitted for which reason."""
    why = bullets(join(code(name), f": {n:,}") for name, n in reasons.items())
    points, kept = (tag("b", counts[name]) for name in ("points", "kept"))
    return document(
        tag(
            "p", points, " points: ", kept, f" kept, {_omitted(counts)}{_several(counts, reasons)}"
        ),
        fold("why illegal", why) if why else "",
    )


def _several(counts: Mapping[str, int], reasons: Mapping[str, int]) -> str:
    """Return that reasons are more than points, where they are."""
    return (
        " (a point may have several reasons)" if sum(reasons.values()) > counts["illegal"] else ""
    )


def _omitted(counts: Mapping[str, int]) -> str:
    missing = counts.get("missing", 0)
    stopped = f", {missing:,} not reached before it was stopped" if missing else ""
    return (
        f"{counts['illegal']:,} illegal, {counts['identical']:,} identical to an earlier one"
        f"{stopped}"
    )


def counts_text(counts: Mapping[str, int], reasons: Mapping[str, int]) -> str:
    """Return the same for a terminal."""
    first = f"{counts['points']:,} points: {counts['kept']:,} kept, {_omitted(counts)}"
    first += _several(counts, reasons)
    return "\n".join([first, *(f"  illegal, {name}: {n:,}" for name, n in reasons.items())])


def sweep_text(rows: Sequence[Row], front: Sequence[int] = ()) -> str:
    """Rows under each other for a terminal: a star for what no other point beats."""
    marked = set(front)
    axes = axes_of(rows)
    lines = []
    for row in rows:
        sets = ", ".join(f"{n}={value_text(n, row['sets'][n], is_setting=True)}" for n in axes)
        results = ", ".join(
            f"{name} {value_text(column, row[column])}"
            for column, name in MEASURES.items()
            if row[column] is not None
        )
        lines.append(
            f"{'*' if row['point'] in marked else ' '} {row['point']:>6}  {sets}: {results}"
        )
    return "\n".join(lines) or "No point is left."

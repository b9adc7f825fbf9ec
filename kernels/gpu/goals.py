"""What the kernels have to reach on a GPU, and what the results of a run say about it."""

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Results = Sequence[dict[str, Any]]
PREFILLS, DECODES = ("P1", "P2", "P3", "P6"), ("D1", "D2", "D3")


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure: the least that is accepted and what is aimed at. `read`: from results, or None."""

    title: str
    unit: str
    must: float
    aim: float
    read: Callable[[Results], float | None]

    def verdict(self, results: Results) -> tuple[str, str]:
        """Return the figure as text, and whether it is reached."""
        value = self.read(results)
        if value is None:
            return "-", "not measured"
        more = self.aim > self.must
        reached = [value >= wanted if more else value <= wanted for wanted in (self.must, self.aim)]
        return f"{value:,.2f}", ("missed", "reached", "aim reached")[sum(reached)]


def _rows(results: Results, table: str, **fields: object) -> Iterable[dict[str, Any]]:
    for result in results:
        for row in result.get(table, []):
            if all(row[name] == value for name, value in fields.items()):
                yield row


def _over_vllm(ours: str) -> Callable[[Results], float | None]:
    """Return a reader of the geometric mean of vLLM 0.33's wall time of a step over ours."""

    def read(results: Results) -> float | None:
        own, vllm = dict[str, float](), dict[str, float]()
        for row in _rows(results, "steps", clock="wall", piece="step"):
            if row["peer"] == ours:
                own[row["workload"]] = row["ratio"]["median"]
            elif row["peer"].startswith("vllm 0.33"):
                vllm[row["workload"]] = row["ratio"]["median"]
        found = [vllm[case] / ratio for case, ratio in own.items() if case in vllm]
        return statistics.geometric_mean(found) if found else None

    return read


def _bitwise_over_fast(cases: Sequence[str]) -> Callable[[Results], float | None]:
    def read(results: Results) -> float | None:
        rows = _rows(results, "steps", clock="gpu cold", piece="attention", peer="bitwise")
        found = [row["ratio"]["median"] for row in rows if row["workload"] in cases]
        return statistics.geometric_mean(found) if found else None

    return read


def _rate(case: str, peer: str, figure: Callable[[dict[str, Any]], float]) -> Callable[..., Any]:
    def read(results: Results) -> float | None:
        return next(map(figure, _rows(results, "rates", case=case, peer=peer)), None)

    return read


def _tflops(row: dict[str, Any]) -> float:
    return float(row["flop"] / row["us"] / 1e6)


def _of_copy(row: dict[str, Any]) -> float:
    return float(row["bytes"] / row["us"] * 1e6 / row["copy_bytes_per_s"] * 100)


def _other_bits(results: Results) -> float | None:
    found = [row["differing"] for row in _rows(results, "bits", promised=True)]
    return float(sum(found)) if found else None


GOALS = (
    Goal("block tables, a step, wall, vLLM 0.33 / ours, lists", "x", 3, 6, _over_vllm("fast")),
    Goal(
        "block tables, a step, wall, vLLM 0.33 / ours, arrays",
        "x",
        3,
        6,
        _over_vllm("fast, arrays"),
    ),
    Goal("prefill of 8K, page 64", "TFLOP/s", 350, 450, _rate("P2", "fast", _tflops)),
    Goal("prefill of 8K, page 528", "TFLOP/s", 350, 450, _rate("P6", "fast", _tflops)),
    Goal("decode of 64 x 8K", "% of copy", 80, 90, _rate("D2", "fast", _of_copy)),
    Goal("bitwise / fast, prefill", "x", 1.3, 1.15, _bitwise_over_fast(PREFILLS)),
    Goal("bitwise / fast, decode", "x", 1.15, 1.05, _bitwise_over_fast(DECODES)),
    Goal("elements with other bits where equal ones are promised", "", 0, -1, _other_bits),
)
"""The figures of the project's plan for its kernels."""


def goals_table(folder: Path) -> str:
    """Return the goals against the results in a folder, as text."""
    results = [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("* *.json"))]
    rows = [("goal", "must", "aim", "measured", "")]
    for goal in GOALS:
        limits = (f"{goal.must:g} {goal.unit}", f"{goal.aim:g}" if goal.aim >= 0 else "")
        rows.append((goal.title, *limits, *goal.verdict(results)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)

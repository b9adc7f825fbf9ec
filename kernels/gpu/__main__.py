"""Entry: `python -m workbench.kernels.gpu [--minutes 9] [--only bench] [--list]`."""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from workbench.kernels.gpu.goals import goals_table
from workbench.kernels.gpu.pieces import (
    FAILED,
    OK,
    PIECE_S,
    REPOSITORY,
    Outcome,
    code_hash,
    pieces,
    run_pieces,
)
from workbench.kernels.mode import triton_mode

_say = partial(print, flush=True)
RESULTS = REPOSITORY / "gpu-results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, resume, report. 0 if everything is right, 1 if not, 2 without a GPU."""
    options = _options(arguments)
    mode = triton_mode()
    if mode.mode != "gpu" and not (options.rehearse and mode.mode == "interpreter"):
        _say(
            f"No GPU: {mode.reason}. Nothing was run. This command measures on a GPU; --rehearse "
            "runs the same pieces in Triton's interpreter, at reduced size and without times."
        )
        return 2
    folder = options.results / re.sub(r"\W+", "-", mode.device or "rehearsal").strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    made = pieces(folder, reduced=mode.mode != "gpu", peers=options.peers)
    parts = options.only.split(",")
    chosen = [piece for piece in made if any(part in piece.name for part in parts)]
    if options.list:
        _say("\n".join(piece.name for piece in chosen))
        return 0
    _say(f"{mode.device or mode.reason}: {len(chosen)} pieces; results in {folder}")
    source = code_hash("kernels", "tests/kernels")
    limit = options.minutes * 60 if options.minutes else float("inf")
    limits = {"seconds": limit, "piece_s": options.piece_s, "workers": options.workers}
    outcomes = run_pieces(chosen, folder, source, _say, **limits)
    _say(f"\n{summary(outcomes, len(chosen))}\n\n{goals_table(folder)}")
    return 0 if len(outcomes) == len(chosen) and _right(outcomes) else 1


def summary(outcomes: Sequence[Outcome], wanted: int) -> str:
    """Count the pieces by how they ended, and show the ends of those that failed."""
    counts = Counter(outcome.status for outcome in outcomes)
    lines = [", ".join(f"{count} {status}" for status, count in counts.items()) or "nothing ran"]
    if left := wanted - len(outcomes):
        lines.append(f"{left} pieces are left: run the same command again")
    for outcome in outcomes:
        if outcome.status != OK:
            end = outcome.output.strip().splitlines()[-12 if outcome.status == FAILED else -1 :]
            lines.append("\n  ".join([f"{outcome.name}: {outcome.status}", *end]))
    return "\n".join(lines)


def _right(outcomes: Sequence[Outcome]) -> bool:
    return all(outcome.status in {OK, "skipped"} for outcome in outcomes)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make gpu",
        description="Tests, drills, sanitizer, benchmarks and notebooks on this GPU.",
    )
    parser.add_argument("--minutes", type=float, help="begin no piece that could end later")
    parser.add_argument(
        "--only", default="", metavar="TEXT,...", help="pieces whose name contains one of them"
    )
    parser.add_argument(
        "--workers", type=int, default=1, help="tests at a time; benchmarks run alone"
    )
    parser.add_argument(
        "--peers", default="", metavar="TEXT,...", help="benchmarks with these peers and ours"
    )
    parser.add_argument("--list", action="store_true", help="name the pieces, run none")
    parser.add_argument(
        "--rehearse", action="store_true", help="without a GPU: in the interpreter, no times"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    parser.add_argument("--piece-s", type=float, default=PIECE_S, help="seconds of a piece")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

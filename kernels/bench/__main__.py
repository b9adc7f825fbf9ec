"""Entry: `python -m workbench.kernels.bench block-table|flex [--json FILE] [--quick]`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from workbench.kernels.bench.workloads import chosen
from workbench.kernels.mode import triton_mode


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, write. 0 if every peer was right, 1 if one was wrong, 2 for bad arguments."""
    options = _options(arguments)
    if options.benchmark == "flex":
        return _flex(options)
    return _block_table(options)


def _block_table(options: argparse.Namespace) -> int:
    try:
        workloads = chosen([name for name in options.workloads.split(",") if name])
    except ValueError as error:
        _say(str(error))
        return 2
    if not _can_run():
        return 2
    # the kernels' modules decide for a mode when they are imported
    from workbench.kernels.bench.block_table import Plan, run
    from workbench.kernels.bench.report import report

    result = run(Plan(workloads, options.quick, _say))
    _say("")
    _say(report(result))
    if options.json:
        options.json.write_text(result.to_json(), encoding="utf-8")
    return 0 if all(verdict.ok for verdict in result.verdicts) else 1


def _flex(options: argparse.Namespace) -> int:
    if not _can_run():
        return 2
    # the kernels' modules decide for a mode when they are imported
    from workbench.kernels.bench.flex import FlexPlan, run_flex, wrong_verdicts
    from workbench.kernels.bench.flex_cases import chosen_cases
    from workbench.kernels.bench.flex_report import flex_report
    from workbench.kernels.bench.flex_rows import FlexResult

    try:
        cases = chosen_cases([name for name in options.cases.split(",") if name])
    except ValueError as error:
        _say(str(error))
        return 2

    def save(result: FlexResult) -> None:
        if options.json:
            options.json.write_text(result.to_json(), encoding="utf-8")

    result = run_flex(FlexPlan(cases, options.quick, _say, save, options.compile_only))
    _say("")
    _say(flex_report(result))
    return 1 if wrong_verdicts(result) else 0


def _can_run() -> bool:
    mode = triton_mode()
    if mode.mode in {"gpu", "interpreter"}:
        return True
    _say(f"Nothing can run here: {mode.reason}")
    return False


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m workbench.kernels.bench",
        description="Kernels against their peers, side by side in one run.",
        epilog="VLLM_SRC=FOLDER adds the kernels of the vLLM that is unpacked there.",
    )
    benchmarks = parser.add_subparsers(dest="benchmark", required=True)
    tables = benchmarks.add_parser("block-table", help="one step of the block tables")
    tables.add_argument("--json", type=Path, metavar="FILE", help="write the result there too")
    tables.add_argument(
        "--workloads", default="", metavar="W1,W3", help="these only, all by default"
    )
    tables.add_argument("--quick", action="store_true", help="few repetitions, to try it out")
    flex = benchmarks.add_parser("flex", help="attention over a paged cache")
    flex.add_argument("--json", type=Path, metavar="FILE", help="write the result there too")
    flex.add_argument("--cases", default="", metavar="P1,D2", help="these only, all by default")
    flex.add_argument("--quick", action="store_true", help="few repetitions, to try it out")
    flex.add_argument(
        "--compile-only", action="store_true", help="the compiler's figures, nothing is run"
    )
    return parser.parse_args(arguments)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

"""Entry: `python -m workbench.kernels.bench block-table|flex [--json FILE] [--quick]`."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from workbench.kernels.mode import triton_mode


class Benchmark(NamedTuple):
    """One benchmark: its module in this package, and what its cases are called."""

    module: str
    title: str
    case: str
    example: str


_say = partial(print, flush=True)
BENCHMARKS = {
    "block-table": Benchmark("block_table", "one step of the block tables", "workload", "W1,W3"),
    "flex": Benchmark("flex", "attention over a paged cache", "case", "P1,D2"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, write. 0 if every peer was right, 1 if one was wrong, 2 for bad arguments."""
    options = _options(arguments)
    mode = triton_mode()
    if mode.mode not in {"gpu", "interpreter"}:
        _say(f"Nothing can run here: {mode.reason}")
        return 2
    # the kernels' modules decide for a mode when they are imported
    from workbench.kernels.bench.report import report
    from workbench.kernels.bench.results import Result
    from workbench.kernels.bench.run import Plan, chosen

    benchmark = BENCHMARKS[options.benchmark]
    module = import_module(f"{__package__}.{benchmark.module}")
    try:
        cases = chosen(benchmark.case, module.CASES, list(filter(None, options.cases.split(","))))
    except ValueError as error:
        _say(str(error))
        return 2

    def save(result: Result) -> None:
        if options.json:
            options.json.write_text(result.to_json(), encoding="utf-8")

    plan = Plan(
        cases=cases,
        quick=options.quick,
        say=_say,
        save=save,
        compile_only=options.compile_only,
        peers=tuple(filter(None, options.peers.split(","))),
    )
    result = module.run(plan)
    _say(f"\n{report(result)}")
    return 1 if result.wrong else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m workbench.kernels.bench",
        description="Kernels against their peers, side by side in one run.",
        epilog="VLLM_SRC=FOLDER adds the kernels of the vLLM that is unpacked there.",
    )
    commands = parser.add_subparsers(dest="benchmark", required=True)
    for name, one in BENCHMARKS.items():
        command = commands.add_parser(name, help=one.title)
        command.set_defaults(compile_only=False)
        command.add_argument("--json", type=Path, metavar="FILE", help="write the result there too")
        only = "these only, all by default"
        command.add_argument(
            f"--{one.case}s", dest="cases", default="", metavar=one.example, help=only
        )
        command.add_argument("--quick", action="store_true", help="few repetitions, to try it out")
        command.add_argument(
            "--peers",
            default="",
            metavar="vllm,cudnn",
            help="fast, and peers whose names contain one of these texts",
        )
    commands.choices["flex"].add_argument(
        "--compile-only", action="store_true", help="the compiler's figures, nothing is run"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

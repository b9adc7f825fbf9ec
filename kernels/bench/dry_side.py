"""The host's share of a step with its launches, launched dry: the way to a GPU without one.

Runs in a process that only compiles: binder, specialisation, look-up and arguments are as on a GPU,
for a launcher that does nothing. Neither its own time nor the driver's is in the figures.
"""

import json
import sys
from dataclasses import asdict
from typing import Any

from workbench.kernels.bench.host_side import step_rows
from workbench.kernels.bench.results import Spread, StepRow
from workbench.kernels.bench.run import Plan, chosen
from workbench.kernels.inspection.api import compiling_process

MODULE = "workbench.kernels.bench.dry_side"
TARGET = "sm_90"


class DryRunError(RuntimeError):
    """The process failed; its last words."""


def dry_step_rows(plan: Plan) -> list[StepRow]:
    """Time whole steps of our paths, and of every vLLM in VLLM_SRC. Errors: DryRunError."""
    request = {"cases": [case.name for case in plan.cases], "quick": plan.quick}
    done = compiling_process(MODULE, request)
    if done.returncode:
        raise DryRunError(done.stderr[-300:])
    return [_row(entry) for entry in json.loads(done.stdout)]


def _row(entry: dict[str, Any]) -> StepRow:
    spreads = {name: Spread(**entry[name]) for name in ("us", "ratio")}
    return StepRow(**{**entry, **spreads})


def main() -> None:
    """Measure what stdin asks for; write rows as JSON to stdout."""
    from workbench.kernels.bench.block_table import peer_kinds
    from workbench.kernels.bench.machine import this_machine
    from workbench.kernels.bench.vllm_source import in_every_vllm
    from workbench.kernels.bench.vllm_tables import find_vllm
    from workbench.kernels.bench.workloads import WORKLOADS
    from workbench.kernels.inspection.dry_driver import dry_launches
    from workbench.kernels.inspection.targets import TARGETS

    request = json.load(sys.stdin)
    cases = chosen("workload", WORKLOADS, request["cases"])
    plan = Plan(cases=cases, quick=request["quick"], say=lambda _line: None)
    sources = in_every_vllm(find_vllm)
    kinds = peer_kinds(this_machine("block_table"), sources, launches="dry")
    with dry_launches(TARGETS[TARGET], limited=False, recorded=False):
        rows = step_rows(plan, kinds, "dry", lambda peer: peer.step())
    json.dump([asdict(row) for row in rows], sys.stdout)


if __name__ == "__main__":
    main()

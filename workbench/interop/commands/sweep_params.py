"""Write scenarios as the file of `vllm bench sweep serve --serve-params` (0.23)."""

import json
from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import Any

from workbench.core.errors import ScenarioError
from workbench.core.plan import Plan
from workbench.interop.commands.vllm_args import loaded_model, vllm_arguments, vllm_environment


def serve_params(plans: Sequence[Plan], names: Sequence[str] = ()) -> str:
    """Return JSON: one object of server arguments per plan, in order, for one model.

    An argument that is absent keeps vLLM's default, so omit it in `--serve-cmd` too. names:
    labels, unique; without them `block-528`, `block-1056-2`, ... Errors: ScenarioError for no plan,
    several models, two equal sets of arguments, or variables that differ (the file holds none).
    """
    if not plans:
        raise ScenarioError("sweep_empty", "A sweep file needs at least one scenario.")
    _one_of("model", {plan.model.name for plan in plans})
    _one_of("batch_invariant", {bool(vllm_environment(plan.settings)) for plan in plans})
    records: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for at, plan in enumerate(plans):
        values = vllm_arguments(plan.settings, plan.model)
        key = json.dumps(values, sort_keys=True)
        if key in seen:
            raise ScenarioError(
                "sweep_repeats",
                f"Scenarios {seen[key] + 1} and {at + 1} give the same server arguments: "
                f"{values or 'the defaults'}. vLLM's file has no field in which they differ.",
            )
        seen[key] = at
        records.append({"_benchmark_name": _label(plan, names, records), **values})
    return json.dumps(records, indent=2) + "\n"


def sweep_command(plan: Plan, path: str) -> str:
    """Return the command that reads the file, with the model that its scenarios share."""
    model = loaded_model(plan.scenario, plan.model)
    variables = "".join(f"{k}={v} " for k, v in vllm_environment(plan.settings).items())
    return (
        f"{variables}vllm bench sweep serve \\\n  --serve-cmd 'vllm serve {model}' \\\n"
        f"  --bench-cmd 'vllm bench serve --model {model} --dataset-name random' \\\n"
        f"  --serve-params {path}"
    )


def _label(plan: Plan, names: Sequence[str], before: Sequence[Mapping[str, Any]]) -> str:
    used = {record["_benchmark_name"] for record in before}
    wanted = names[len(before)] if len(before) < len(names) else f"block-{plan.block_size}"
    numbered = chain([wanted], (f"{wanted}-{number}" for number in count(2)))
    return next(label for label in numbered if label not in used)


def _one_of(field: str, values: set[Any]) -> None:
    if len(values) > 1:
        listed = ", ".join(sorted(map(str, values)))
        message = f"All scenarios of one sweep file have the same {field}; got {listed}."
        raise ScenarioError("sweep_mixed", f"{message} Write one file for each.", field=field)

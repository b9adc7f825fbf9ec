"""Run in a process of its own: declare one more field in the table, and print where it appears."""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader

TABLE = "workbench.scenario.more_fields"
DECLARATION = """
    long_prefill_token_threshold: int = declare(
        0,
        Tokens(low=0, high=8192),
        "Long prefill",
        "{flag}, in tokens",
        also=("VLLM_LONG_PREFILL", "long_prefill"),
        examples=(0, 256, 512),
        sweep=(0, 256),
    )
"""


class Extended(SourceFileLoader):
    """The table's module, with one declaration more at its end, in the last class."""

    def get_code(self, fullname):
        text = self.get_data(self.path).decode() + DECLARATION
        return compile(text, self.path, "exec")


class Finder(MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname != TABLE:
            return None
        found = PathFinder.find_spec(fullname, path)
        return importlib.util.spec_from_file_location(
            fullname, found.origin, loader=Extended(fullname, found.origin)
        )


sys.meta_path.insert(0, Finder())

NAME = "long_prefill_token_threshold"


def errors(values):
    import workbench as wb

    found = []
    for value in values:
        try:
            wb.Scenario(**{NAME: value})
        except wb.ScenarioError as error:
            found.append([error.code, error.field, error.message])
    return found


def picker():
    import workbench as wb
    from workbench.scenario import FIELDS

    door = wb.explore()
    door.show_field("all")
    declared = FIELDS[NAME]
    shown = door.view.regions["bar"]
    door.set(NAME, "512")
    return {
        "section": declared.section,
        "label": declared.label if f"<span>{declared.label}</span>" in shown else None,
        "tip": declared.tip if declared.tip in shown else None,
        "value": getattr(door.scenario, NAME),
    }


def read_back(command):
    from workbench.interop.exchange import from_vllm_command

    return getattr(from_vllm_command(command).scenario, NAME)


def everywhere():
    import workbench as wb
    from workbench.commands.scenarios import scenario_of
    from workbench.scenario.scenario import random_scenarios
    from workbench.scenario.schema import published_schema
    from workbench.sweeps.axes import default_axes
    from workbench.sweeps.language import parse_axes

    scenario = wb.Scenario(model="llama-3.1-8b", **{NAME: 512})
    plan = wb.resolve(scenario)
    log = f"non-default args: {{'model': 'meta-llama/Llama-3.1-8B', '{NAME}': 256}}"
    return {
        "default": getattr(wb.Scenario(), NAME),
        "dict": scenario.to_dict()[NAME],
        "json": wb.Scenario.from_json(scenario.to_json()) == scenario,
        "errors": errors([9000, "9k", None]),
        "schema": published_schema()["$defs"]["scenario"]["properties"][NAME],
        "picker": picker(),
        "set": getattr(scenario_of(None, ["model=llama-3.1-8b", f"{NAME}=16"]), NAME),
        "command": plan.to_vllm_command(),
        "python": plan.to_code(),
        "read": read_back(plan.to_vllm_command()),
        "variable": read_back("VLLM_LONG_PREFILL=4k vllm serve x/y"),
        "log": wb.explain_log(log).scenario[NAME],
        "random": sorted({getattr(one, NAME) for one in random_scenarios(40, 1, "0.33")}),
        "axes": default_axes(scenario)[NAME],
        "axis": parse_axes(f"{NAME} = 0, 128")[NAME],
        "swept": len(wb.sweep(scenario, {NAME: (0, 256, 512)})),
    }


sys.stdout.write(json.dumps(everywhere()))

"""Write which flags `vllm serve` of a release has: workbench/core/versions/VERSION/flags.json.

    ~/vllm-0.33/bin/python tools/record_flags.py

Run it with the Python of the environment that has the release (tools/vllm_environment.py makes
one). vLLM's own parser lists them, as it is on a machine without a GPU.
"""

import argparse
import importlib
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

VERSIONS = Path(__file__).parents[1] / "workbench" / "core" / "versions"
FILE = "flags.json"
PARSERS = ("vllm.entrypoints.openai.cli_args", "vllm.entrypoints.common.cli_args")
"""Modules that make the parser, in one release or the other."""
KINDS: dict[Any, str] = {0: "switch", "+": "list", "*": "list", "?": "optional"}
PLAIN = (bool, int, float, str)
OFF = "--no-"
"""Of every switch, and accepted by every release."""


def main() -> None:
    """Run from the command line."""
    release = ".".join(version("vllm").split(".")[:2])
    entry = {
        "origin": f"the parser of `vllm serve` in vLLM {version('vllm')}",
        **flags_of(server_parser()),
    }
    path = VERSIONS / f"v{release.replace('.', '_')}" / FILE
    path.write_text(json.dumps(entry, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{path}: {len(entry['flags'])} flags")


def server_parser() -> argparse.ArgumentParser:
    """Return vLLM's parser."""
    sys.modules["torchvision"] = None  # type: ignore[assignment]
    platforms = importlib.import_module("vllm.platforms")
    platforms._current_platform = importlib.import_module("vllm.platforms.cpu").CpuPlatform()  # noqa: SLF001
    found = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser()
    for name in PARSERS:
        try:
            made: argparse.ArgumentParser = importlib.import_module(name).make_arg_parser(found)
        except ModuleNotFoundError:
            continue
        return made
    raise SystemExit(f"no parser in {', '.join(PARSERS)}")


def flags_of(parser: argparse.ArgumentParser) -> dict[str, dict[str, Any]]:
    """Return flag -> what follows it, other name -> flag, name that turns off -> flag, defaults.

    Defaults other than plain values, such as objects with settings, are omitted.
    """
    flags, names, opposites, defaults = {}, {}, {}, {}
    for action in parser._actions:  # noqa: SLF001
        spelled = [one for one in action.option_strings if not one.startswith(OFF)]
        if not spelled or action.dest == "help":
            continue
        of_argument = "--" + action.dest.replace("_", "-")
        flag = of_argument if of_argument in spelled else spelled[0]
        flags[flag] = KINDS.get(action.nargs, "value")
        if action.default is None or isinstance(action.default, PLAIN):
            defaults[flag] = action.default
        for name in spelled:
            if flags[flag] == "switch" and turns_off(action, parser, name):
                opposites[name] = flag
            elif name != flag:
                names[name] = flag
    return {"flags": flags, "names": names, "opposites": opposites, "defaults": defaults}


def turns_off(action: argparse.Action, parser: argparse.ArgumentParser, name: str) -> bool:
    """Return whether a switch of this name means False."""
    found = argparse.Namespace()
    action(parser, found, [], name)
    return getattr(found, action.dest) is False


if __name__ == "__main__":
    main()

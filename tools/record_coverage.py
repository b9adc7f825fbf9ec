"""Record one answer of an installed vLLM per architecture: tests/data/coverage.jsonl.gz.

    ~/vllm-0.33/bin/python tools/record_coverage.py [ARCHITECTURE ...]

Run by the Python of that vLLM, on any machine (tools/vllm_environment.py makes one).
The configuration of an architecture is what its configuration class has by default (in
transformers, or in vLLM); tools/coverage_configs.json completes defaults that cannot be built, has
a whole one where the class is in a hub repository, or the name of an architecture like it, and the
arguments without which vLLM refuses a model. Every model is built by a process of its own, with a
time limit.
Then tools/write_coverage.py compares the answers with the plans.
"""

import ast
import gzip
import importlib
import json
import os
import re
import select
import signal
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from model_sources import sources

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "tests" / "data" / "coverage.jsonl.gz"
OWN = json.loads((ROOT / "tools" / "coverage_configs.json").read_text(encoding="utf-8"))
ARGUMENTS = {"kv_cache_memory_bytes": 64 * 2**30}
FIRST = "OrionForCausalLM"
CAPABILITY = [9, 0]
SECONDS, SHORT = 150, 300
SMALL_LAYERS = 4
ABSENT_PACKAGES = ("torchaudio", "cutlass", "cuda")
ENDINGS = r"(ForCausalLM|ForConditionalGeneration|LMHeadModel|Model|ForCausalLMV|Generation)$"


def main() -> None:
    """Run from the command line."""
    sys.path.append(str(ROOT / "tools"))
    sys.path.append(str(ROOT / "workbench" / "verify"))
    import record_cache_groups
    from coverage_stand_ins import without_towers
    from vllm_probe import machine

    machine.OPTIONAL_PACKAGES["cuda"] += ABSENT_PACKAGES
    played = record_cache_groups.simulated_machine({"platform": "cuda", "capability": CAPABILITY})
    sys.path.append(str(ROOT / "workbench" / "verify"))
    without_towers()
    # The processes are killed: what they leave goes when this one ends.
    folder = tempfile.TemporaryDirectory(prefix="workbench-vllm-")
    tempfile.tempdir = folder.name
    release = ".".join(version("vllm").split(".")[:2])
    origin = f"vllm {version('vllm')}, transformers {version('transformers')}, capability 9.0"
    rows = _known(release)
    # What one model imports, the processes of all the others have then.
    _answer({"config": OWN["written"][FIRST], "arguments": ARGUMENTS}, played, record_cache_groups)
    for name, module in sorted(built_alone(release).items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        found = configuration_of(name, module)
        if found is None:
            continue
        config, source = found
        arguments = ARGUMENTS | OWN["arguments"].get(name, {})
        row = {"rules": release, "architecture": name, "source": source, "origin": origin,
               "config": config, "arguments": arguments}  # fmt: skip
        answer = _within_limit(lambda row=row: _answer(row, played, record_cache_groups))
        rows[release, name] = {**row, **answer}
        sys.stderr.write(f"{name}: {answer.get('num_blocks', answer.get('refused'))}\n")
        _write(rows)


def built_alone(release: str) -> dict[str, str]:
    """Return the architectures that generate or pool, with the modules that build them."""
    folder = ROOT / "workbench" / "core" / "versions" / f"v{release.replace('.', '_')}"
    entry = json.loads((folder / "architectures.json").read_text(encoding="utf-8"))
    return {**entry["encoders"], **entry["pooling"], **entry["served"]}


def configuration_of(name: str, module: str) -> tuple[dict[str, Any], str] | None:
    """Return the configuration of an architecture, and where it is from; None without any."""
    if other := OWN["like"].get(name):
        found = configuration_of(other, module)
        return found and (_with_own(name, {**found[0], "architectures": [name]}), found[1])
    if name in OWN["written"]:
        return OWN["written"][name], "a configuration written for it"
    kind = _class_of(name, module)
    if kind is None:
        return None
    try:
        config = _plain(kind().to_diff_dict())
    except (TypeError, ValueError):
        return None
    config |= {"architectures": [name], "dtype": "bfloat16"}
    config.setdefault("model_type", kind.model_type)
    config = _with_own(name, config)
    if name in OWN["small"]:
        _shrink(config)
    config.pop("transformers_version", None)
    completed = ", completed" if name in OWN["completed"] or name in OWN["small"] else ""
    return config, f"the defaults of {kind.__name__}{completed}"


def _class_of(name: str, module: str) -> Any:
    """Return the configuration class of an architecture, found by transformers or by its name."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto import modeling_auto
    from vllm.transformers_utils import config

    tables = (getattr(modeling_auto, one) for one in dir(modeling_auto) if "MAPPING_NAMES" in one)
    types = [kind for table in tables for kind, names in table.items()
             if name == names or (isinstance(names, tuple | list) and name in names)]  # fmt: skip
    wanted = re.sub(ENDINGS, "", name).lower().replace("_", "")
    types += [kind for kind in (*config._CONFIG_REGISTRY, *CONFIG_MAPPING)  # noqa: SLF001
              if kind.lower().replace("_", "").replace("-", "") == wanted]  # fmt: skip
    for kind in types:
        for table in (config._CONFIG_REGISTRY, CONFIG_MAPPING):  # noqa: SLF001
            if kind in table:
                return table[kind]
    return _imported(module, wanted)


def _imported(module: str, wanted: str) -> Any:
    """Return the configuration class of that name which the model's module imports."""
    package = Path(importlib.import_module("vllm").__file__ or "").parent
    for path in sources(package, module):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and "transformers" in (node.module or ""):
                for alias in node.names:
                    if alias.name.lower() == f"{wanted}config":
                        return getattr(importlib.import_module(str(node.module)), alias.name)
    return None


def _with_own(name: str, config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration with the values that its defaults lack."""
    config = json.loads(json.dumps(config))
    for pointer, value in OWN["completed"].get(name, {}).items():
        config = _completed(config, pointer, value)
    return config


def _completed(config: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    """Return the configuration with one value set; "" takes a part of it as the whole."""
    if not pointer:
        return {**config[value], "architectures": config["architectures"], "dtype": "bfloat16"}
    *path, last = pointer.split("/")[1:]
    place = config
    for key in path:
        if not isinstance(place.get(key), dict):
            place[key] = {}
        place = place[key]
    place[last] = value
    return config


def _shrink(config: dict[str, Any]) -> None:
    for key in ("num_hidden_layers", "n_layer"):
        if key in config:
            config[key] = SMALL_LAYERS
    for key in ("layer_types", "mlp_layer_types"):
        if isinstance(config.get(key), list):
            config[key] = config[key][:SMALL_LAYERS]


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value).removeprefix("torch.")


def _answer(row: dict[str, Any], played: Any, recorder: Any) -> dict[str, Any]:
    from vllm_probe.answers import answer

    question = {"config": row["config"], "arguments": row["arguments"]}
    given = recorder._recorded(answer(recorder.probe_question(question), played))  # noqa: SLF001
    if "groups" not in given:
        return {"refused": _why(given.get("refused") or given.get("unanswered"))[:SHORT]}
    groups = sorted(
        [group["kind"], group["block_size"], group["page_size_bytes"],
         sum(layers[-1] for layers in group["layers"]), backends]
        for group, backends in zip(given["groups"], given["group_backends"], strict=True)
    )  # fmt: skip
    numbers = {name: given[name] for name in ("block_size", "num_blocks", "max_concurrency")}
    return {**numbers, "groups": groups}


def _why(error: object) -> str:
    """Return the text of an error without the temporary folder of the model."""
    return re.sub(r"/[^'\"\s]*workbench-vllm-\w+", "the folder", str(error))


def _within_limit(ask: Any) -> dict[str, Any]:
    """Return what a child process answers, or why there is none."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = ask()
        except BaseException as error:  # noqa: BLE001  (a refusal by vLLM is also an answer)
            text = _why(error).strip().splitlines() or [""]
            answer = {"refused": f"{type(error).__name__}: {text[0][:200]}"}
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    ready, _, _ = select.select([read], [], [], SECONDS)
    text = os.fdopen(read, "rb").read() if ready else b""
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    late = {"refused": f"not built within {SECONDS} seconds"}
    found: dict[str, Any] = json.loads(text) if text else late
    return found


def _known(release: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the recorded answers, without those of a release that is recorded whole again."""
    if not TARGET.exists():
        return {}
    with gzip.open(TARGET, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    kept = [row for row in rows if sys.argv[1:] or row["rules"] != release]
    return {(row["rules"], row["architecture"]): row for row in kept}


def _write(rows: dict[tuple[str, str], dict[str, Any]]) -> None:
    text = "".join(json.dumps(rows[key]) + "\n" for key in sorted(rows))
    with TARGET.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        file.write(text.encode())


if __name__ == "__main__":
    main()

"""Write which model classes a vLLM release has: workbench/core/versions/VERSION/architectures.json.

    ~/vllm-0.33/bin/python tools/model_registries.py

Run it with the Python of the environment that has the release (tools/vllm_environment.py makes
one). Sources are parsed, and model classes are imported on a CUDA device that is simulated.
"""

import ast
import importlib
import inspect
import json
import re
import sys
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import class_interfaces
import encoder_models
import library_models
from model_sources import sources

ROOT = Path(__file__).parents[1]
VERSIONS = ROOT / "workbench" / "core" / "versions"
FILE = "architectures.json"
REGISTRY = "model_executor/models/registry.py"
HOOKS = "model_executor/models/config.py"
LIBRARY = "transformers"
TRANSFORMERS = "model_executor/models/transformers/base.py"
HOOK_TABLE, STATE_DTYPE = "MODELS_CONFIG_MAP", "cache_config.mamba_ssm_cache_dtype ="
SERVED_TABLES = ("_TEXT_GENERATION_MODELS", "_MULTIMODAL_MODELS", "_TRANSFORMERS_SUPPORTED_MODELS")
"""Tables of models that generate; pooling models and drafters are other tables."""
DRAFTERS, LIBRARY_CLASSES = "_SPECULATIVE_DECODING_MODELS", "_TRANSFORMERS_BACKEND_MODELS"
TYPE_TABLES = ("MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")
"""Tables of transformers: model_type -> class, the last one counts."""
BASE_TABLE = "MODEL_MAPPING_NAMES"
"""The one that vLLM takes the class from where a file names none (`get_config`)."""
TEXT_CONFIGS = ("config.text_config", "config.get_text_config()", "self.text_config")
TESTS_OF_ATTENTION = ("is_backend_compatible", "_can_set_attn_implementation")
"""Methods of a class of transformers that say if its attention can be replaced; each release asks
some of them."""
KNOWS_PARTS = "MLAAttention"
"""A layer that `transformers/base.py` builds since it looks at the text part, for latents."""
REFUSES_PLANS = "does not support tensor parallel"
"""Said by `transformers/base.py` of 0.23 to a class that has no plan for ranks, nor for stages."""
ABSENT_PACKAGES = ("cuda", "cutlass", "tiktoken", "timm", "torchaudio")
"""Packages that some model files import, taken for installed."""
TIES = re.compile(r"^ +assert (not )?\w[^#\n]*\btie_word_embeddings\b", re.MULTILINE)
"""An assertion of a class on its two vocabularies."""
SHARED_NAMES = re.compile(r"(?<!decoder\.)\bembed_tokens\b|\bself\.embedding\b")
"""What drafters that take the target's embedding call it (`maybe_share_target_embed`, 0.33).

They look in the model itself, not in a decoder inside of it."""
HANDS_ON = "supports_aux_hidden_states_over_pp"
INNER = re.compile(r'\barchitectures=\["(\w+)"\]')
"""The language model that a class builds by its name."""
ANY = "*"
"""The text configuration names the language model."""


def main() -> None:
    """Run from the command line."""
    package = package_folder("vllm")
    tables = read_tables((package / REGISTRY).read_text(encoding="utf-8"))
    served = {name: place for table in SERVED_TABLES for name, place in tables[table].items()}
    drafters = set(tables[DRAFTERS])
    origin = f"vllm {version('vllm')}, vllm/{REGISTRY}; transformers {version('transformers')}"
    entry = {
        "origin": origin,
        "served": {name: module for name, (module, _class) in sorted(served.items())},
        "drafters": sorted(drafters),
        "library_classes": sorted(tables[LIBRARY_CLASSES]),
        "model_types": model_types(package_folder(LIBRARY), set(served)),
        "base_classes": base_classes(package_folder(LIBRARY)),
        "wrappers": wrappers(package, tables["_MULTIMODAL_MODELS"]),
        "last_versions": dict(sorted(tables["_PREVIOUSLY_SUPPORTED_MODELS"].items())),
        "with_state_dtype": with_state_dtype((package / HOOKS).read_text(encoding="utf-8")),
    }
    played()
    entry |= stages({*served, *drafters, *encoder_models.pooling_classes(tables)}, drafters)
    entry |= class_interfaces.interfaces({*served, *encoder_models.pooling_classes(tables)})
    entry["encoders"] = encoder_models.encoders(tables)
    pooling = encoder_models.pooling_classes(tables)
    others = pooling.keys() - served.keys() - entry["encoders"].keys()
    entry["pooling"] = {name: pooling[name] for name in sorted(others)}
    release = ".".join(version("vllm").split(".")[:2])
    known = {name for table in tables.values() for name in table}
    elsewhere, alone = in_library(entry, release, known)
    through_library = {name for name, (module, _class) in served.items() if module == LIBRARY}
    source = (package / TRANSFORMERS).read_text(encoding="utf-8")
    # before any is built, which makes them classes of vLLM
    queried = elsewhere | alone | through_library if REFUSES_PLANS in source else set()
    without = library_models.without_plans(queried)
    built = library_models.built(alone, importlib.import_module(LIBRARY), played())
    entry["run_by_transformers"] = sorted({*elsewhere, *built})
    entry["library_knows_parts"] = KNOWS_PARTS in source
    entry["without_plans"] = sorted(without & {*elsewhere, *built, *through_library})
    text = json.dumps(entry, indent=1) + "\n"
    (folder_of(release) / FILE).write_text(text, encoding="utf-8")


def folder_of(release: str) -> Path:
    """Return the package of a release's rules."""
    return VERSIONS / f"v{release.replace('.', '_')}"


def read_tables(source: str) -> dict[str, Any]:
    """Return the tables of the registry module, without importing it."""
    names: dict[str, Any] = {}
    for node in ast.parse(source).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name) and target.id.endswith("_MODELS"):
            exec(compile(ast.Module([node], []), REGISTRY, "exec"), names)  # noqa: S102
    return names


def model_types(library: Path, served: set[str]) -> dict[str, str]:
    """Return the served class of every model_type whose text generation transformers knows."""
    found: dict[str, str] = {}
    for table in TYPE_TABLES:
        names = library_table(library, table)
        found |= {kind: name for kind, name in names.items() if name in served}
    return dict(sorted(found.items()))


def base_classes(library: Path) -> dict[str, str]:
    """Return model_type -> the class of a file that names none: its configuration's own, first."""
    played()
    kinds = importlib.import_module("vllm.transformers_utils.config")._CONFIG_REGISTRY  # noqa: SLF001
    found = library_table(library, BASE_TABLE)
    for kind in kinds:
        try:
            own = kinds[kind]().architectures
        except (AssertionError, AttributeError, ImportError, TypeError, ValueError):  # needs a file
            continue
        found |= {kind: own[0]} if own else {}
    return dict(sorted(found.items()))


def library_table(library: Path, table: str) -> dict[str, str]:
    """Return a table of transformers: model_type -> class, the first where it has several."""
    source = (library / "models" / "auto" / "modeling_auto.py").read_text(encoding="utf-8")
    tables = {
        ast.unparse(node.targets[0]): node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
    }
    pairs = ast.literal_eval(tables[table].args[0])  # type: ignore[attr-defined]
    return {kind: name if isinstance(name, str) else name[0] for kind, name in pairs}


def wrappers(package: Path, table: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """Return, for every multimodal class, which language models it builds and if it is a hybrid."""
    found = {}
    for name, (module, class_name) in sorted(table.items()):
        trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sources(package, module)]
        languages = sorted({name for tree in trees for name in language_models(tree)})
        if languages:
            hybrid = any(is_hybrid(tree, class_name) for tree in trees)
            found[name] = {"language_models": languages, "is_hybrid": hybrid}
    return found


def language_models(tree: ast.Module) -> set[str]:
    """Return the architectures that a module builds from its text configuration."""
    names: set[str] = set()
    for node in ast.walk(tree):
        builder = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if builder != "init_vllm_registered_model":
            continue
        values = {keyword.arg: keyword.value for keyword in node.keywords}
        if "hf_config" not in values or ast.unparse(values["hf_config"]) not in TEXT_CONFIGS:
            continue
        listed = values.get("architectures")
        if listed is None or ast.unparse(listed) == "config.text_config.architectures":
            names.add(ANY)
        elif isinstance(listed, ast.List):
            names.update(ast.literal_eval(listed))
    return names


def is_hybrid(tree: ast.Module, class_name: str) -> bool:
    """Return whether the class is declared with vLLM's interface of models that keep states."""
    return any(
        isinstance(node, ast.ClassDef)
        and node.name == class_name
        and "IsHybrid" in map(ast.unparse, node.bases)
        for node in ast.walk(tree)
    )


def with_state_dtype(source: str) -> list[str]:
    """Return the architectures whose hook replaces an "auto" state dtype.

    A hook sets it itself, or calls another one that does.
    """
    module = ast.parse(source)
    hooks = {node.name: ast.unparse(node) for node in module.body if isinstance(node, ast.ClassDef)}
    setting = {name for name, code in hooks.items() if STATE_DTYPE in code}
    for _ in hooks:
        setting |= {name for name in hooks if any(f"{one}." in hooks[name] for one in setting)}
    tables = [node for node in module.body if isinstance(node, ast.AnnAssign)]
    table = next(node.value for node in tables if ast.unparse(node.target) == HOOK_TABLE)
    assert isinstance(table, ast.Dict)
    pairs = zip(table.keys, table.values, strict=True)
    return sorted(
        ast.literal_eval(key) for key, value in pairs if key and ast.unparse(value) in setting
    )


@cache
def played() -> Any:
    """Return the simulated machine."""
    sys.path.append(str(ROOT / "workbench" / "verify"))
    from vllm_probe import machine

    machine.OPTIONAL_PACKAGES["cuda"] += ABSENT_PACKAGES
    return machine.play({"platform": "cuda", "capability": [9, 0]})


def stages(names: set[str], drafters: set[str]) -> dict[str, list[str]]:
    """Return the classes, drafters too, that vLLM does not cut into pipeline stages.

    And those that give hidden states to heads of drafters, also over stages (0.33); and those that
    assert that the two vocabularies are one, or are two.
    """
    played()
    interfaces = importlib.import_module("vllm.model_executor.models.interfaces")
    found: dict[str, list[str]] = {
        "without_stages": [],
        "gives_hidden_states": [],
        "hands_on_states": [],
        "only_tied": [],
        "never_tied": [],
        "embedding_named_apart": [],
    }
    inner = {}
    for name, kind in encoder_models.loaded(names):
        if not interfaces.supports_pp(kind):
            found["without_stages"].append(name)
        if interfaces.supports_eagle3(kind):
            found["gives_hidden_states"].append(name)
        if asserted := TIES.search(inspect.getsource(kind.__init__)):
            found["never_tied" if asserted[1] else "only_tied"].append(name)
        is_whole = name in drafters or interfaces.supports_multimodal(kind)
        if not (is_whole or shares_embedding(kind)):
            found["embedding_named_apart"].append(name)
        inner[name] = set(INNER.findall(inspect.getsource(kind.__init__)))
        if any(getattr(one, HANDS_ON, False) for one in decoders(kind)):
            found["hands_on_states"].append(name)
    states = {*found["hands_on_states"]}
    found["hands_on_states"] = sorted(states | {name for name in inner if inner[name] & states})
    return found


def decoders(kind: type) -> list[type]:
    """Return the models of a class's own module, else those of the nearest base that has any."""
    for origin in (base.__module__ for base in kind.__mro__):
        names = vars(sys.modules[origin]).items()
        models = [one for word, one in names if word.endswith("Model") and isinstance(one, type)]
        if found := [one for one in models if one.__module__ == origin]:
            return found
    return []


def shares_embedding(kind: type) -> bool:
    """Return whether a class names its embedding as drafters do; for text models only."""
    origins = {base.__module__ for base in kind.__mro__ if base.__module__.startswith("vllm.")}
    known = [one for origin in origins for one in vars(sys.modules[origin]).items()]
    models = [one for word, one in known if word.endswith("Model") and isinstance(one, type)]
    parts = {base for one in (kind, *models) for base in one.__mro__}
    codes = (inspect.getsource(one) for one in parts if one.__module__.startswith("vllm."))
    return any(map(SHARED_NAMES.search, codes))


def in_library(entry: dict[str, Any], release: str, known: set[str]) -> tuple[set[str], set[str]]:
    """Return the models of other releases that the Transformers library has, and its own ones.

    The conditions are those of `_ModelRegistry._try_resolve_transformers`: the library has the
    class, and its attention can be replaced. Those of this release's registry are not among them.
    """
    own = folder_of(release)
    others = [path for path in VERSIONS.glob(f"*/{FILE}") if path.parent != own]
    elsewhere = {name for path in others for name in json.loads(path.read_text())["served"]}
    library = importlib.import_module(LIBRARY)
    source = (package_folder("vllm") / REGISTRY).read_text(encoding="utf-8")
    tests = [test for test in TESTS_OF_ATTENTION if f".{test}()" in source]
    served = (elsewhere | set(entry["last_versions"])) - set(entry["served"])
    alone = library_models.generating(package_folder(LIBRARY)) - known - served
    kinds = {name: getattr(library, name, None) for name in served | alone}
    fits = {
        name for name, kind in kinds.items() if any(getattr(kind, one)() for one in tests if kind)
    }
    return fits & served, fits & alone


def package_folder(name: str) -> Path:
    """Return the folder of an installed package, which is not imported."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{name} is not installed here. Run this with the Python that has vLLM.")
    return Path(spec.origin).parent


if __name__ == "__main__":
    main()

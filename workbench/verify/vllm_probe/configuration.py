"""vLLM's configuration of one question, through its own command line."""

import copy
import json
import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from . import processors
from .machine import CannotAnswer, Machine

ALWAYS = (
    *("--skip-tokenizer-init", "--load-format", "dummy", "--enforce-eager"),
    *("--distributed-executor-backend", "mp"),
    # Graph rewriting needs compiled operators at configuration time; no cache depends on it.
    *("--compilation-config", '{"pass_config": {"fuse_allreduce_rms": false}}'),
)
"""What every command has: there are no weights, no tokenizer and no compiled operators here."""
SPECULATION = "--speculative-config"
PART = "_config"
PARTS = frozenset({"text_config", "llm_config", "language_config", "vision_config"})
"""Objects of a config.json that are configurations; others are, too, if they name their type."""
DERIVED = {"mimo": "qwen2", "nemotron-nas": "llama", "dots_ocr": "qwen2"}
"""Type whose configuration class is in a hub repository -> the type whose class it derives from."""


def build(question: dict[str, Any], machine: Machine) -> Any:
    """Build the VllmConfig, not its models and layers. Errors: whatever vLLM raises."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext

    _inspect_in_this_process()
    processors.limits_without_files(machine)
    machine.device_memory_bytes = question["device_memory_bytes"]
    machine.device_name = question["device_name"]
    _set_environment(question["environment"])
    folder = model_folder(question["config"], machine)
    words = ["--model", folder, "--tokenizer", folder, *ALWAYS, *_words(question, machine)]
    # Its defaults are one object for all questions, and EngineArgs writes into additional_config.
    arguments = EngineArgs.from_cli_args(copy.deepcopy(_parser().parse_args(words)))
    if arguments.data_parallel_size > 1 and question["usage_context"] == "LLM_CLASS":
        from vllm.entrypoints.llm import LLM

        LLM(folder, data_parallel_size=arguments.data_parallel_size)  # refuses it before all else
    config = arguments.create_engine_config(UsageContext[question["usage_context"]])
    _settle_engines(config)
    return config


def _settle_engines(config: Any) -> None:
    """Make engines of a model without experts independent, as `run_engine_core` does."""
    parallel = config.parallel_config
    if parallel.data_parallel_size == 1 or config.model_config.is_moe:
        return
    if hasattr(parallel, "reconfigure_for_independent_dp_rank"):
        parallel.reconfigure_for_independent_dp_rank()
    else:
        parallel.data_parallel_size = parallel.data_parallel_size_local = 1
        parallel.data_parallel_rank = 0


def _words(question: dict[str, Any], machine: Machine) -> list[str]:
    """Return the words of the command, with the folder of the draft model in place of its name."""
    words, draft = list(question["words"]), question["draft_config"]
    if SPECULATION in words:
        at = words.index(SPECULATION) + 1
        given = json.loads(words[at])
        given.pop("model", None)  # a name to fill in, where there is no draft model
        model = {} if draft is None else {"model": model_folder(draft, machine)}
        words[at] = json.dumps({**given, **model})
    return words


@cache
def _parser() -> Any:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Parser(FlexibleArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise ValueError(message)

    return EngineArgs.add_cli_args(Parser())


_FIRST: dict[str, str] = {}
"""The environment before the first question."""


def _set_environment(variables: dict[str, str]) -> None:
    """Set these variables, without those of the question before and those that vLLM set for it."""
    # TransformersForCausalLM turns MLA off for its process, where it finds none that it can fuse.
    _FIRST.update({} if _FIRST else os.environ)
    for name in {name for name in os.environ if name.startswith("VLLM_")} - _FIRST.keys():
        del os.environ[name]
    os.environ.update(_FIRST | variables)


_FOLDERS: dict[str, tempfile.TemporaryDirectory[str]] = {}


def model_folder(config: dict[str, Any], machine: Machine) -> str:
    """Write this config.json, without remote code, to a folder that exists until the probe ends.

    What ModelOpt writes to a file of its own (hf_quant_config.json) is written there.
    """
    known = {name: value for name, value in config.items() if name not in {"auto_map", "_source"}}
    quantization = known.get("quantization_config")
    is_apart = isinstance(quantization, dict) and "quantization" in quantization
    text = json.dumps(known)
    if text not in _FOLDERS:
        _register_type(config, machine)
        folder = _FOLDERS[text] = tempfile.TemporaryDirectory(prefix="workbench-vllm-")
        files = {"config.json": known}
        if is_apart:
            files["hf_quant_config.json"] = known.pop("quantization_config")
        for name, content in files.items():
            (Path(folder.name) / name).write_text(json.dumps(content), encoding="utf-8")
    return _FOLDERS[text].name


def _register_type(config: dict[str, Any], machine: Machine) -> None:
    """Register a plain configuration class for a type whose own class is in a hub repository."""
    from vllm.transformers_utils import config as vllm_config

    model_type = str(config.get("model_type"))
    if model_type in vllm_config._CONFIG_REGISTRY:  # noqa: SLF001  (no public list)
        return
    known = _known_class(DERIVED.get(model_type, ""))
    if model_type in DERIVED and _takes(known, config):
        plain = type("DerivedConfig", (known,), {"model_type": model_type})
        with suppress(ValueError):  # the type is known
            vllm_config.AutoConfig.register(model_type, plain)
        return
    # What classes of a hub have by default and models read; no cache depends on it.
    rope = {"rope_type": "default", "rope_theta": 10_000.0}
    defaults = {"rope_parameters": rope, "tie_word_embeddings": True}
    own = {"model_type": model_type, "__init__": _with_attributes, **defaults}
    plain = type(_class_name(config), (_base(),), own)
    try:
        vllm_config.AutoConfig.register(model_type, plain)
    except ValueError:  # the type is known
        return
    machine.stand_ins[f"configuration class of {model_type}"] = "a plain one, with few defaults"


def _class_name(config: dict[str, Any]) -> str:
    """Return the name of the hub's class, which hooks assert (`GteNewModelConfig`)."""
    remote = config.get("auto_map")
    named = remote.get("AutoConfig") if isinstance(remote, dict) else None
    return named.rpartition(".")[2] if isinstance(named, str) else "PlainConfig"


def _takes(known: Any, config: dict[str, Any]) -> bool:
    """Return whether a class takes the values of a file: null is refused by newer ones."""
    try:
        known(**copy.deepcopy(config))
    except Exception:  # noqa: BLE001  (whatever a configuration class raises)
        return False
    return True


class _Attributes(dict[str, Any]):
    """An object of a config.json whose fields a remote class makes attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def _with_attributes(self: Any, **fields: Any) -> None:
    found = {key: _attributes(key, one) for key, one in fields.items()}
    self.__dict__.update(found)  # such classes set their fields before the base class reads them
    super(type(self), self).__init__(**found)


def _attributes(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_attributes("", one) for one in value]
    if not isinstance(value, dict):
        return value
    if name in PARTS or (name.endswith(PART) and "model_type" in value):
        return _part(name, value)
    return _Attributes({key: _attributes(key, one) for key, one in value.items()})


def _part(name: str, value: dict[str, Any]) -> Any:
    """Return the configuration of a part, of its own class if that is known."""
    known = _known_class(value.get("model_type", ""))
    # The tower of a file may be named like the whole model that it is from.
    return (known.sub_configs.get(name) or known)(**copy.deepcopy(value))


def _known_class(kind: str) -> Any:
    """Return the configuration class of a type: vLLM's own, of transformers, or the base class."""
    from vllm.transformers_utils import config as vllm_config

    if kind in vllm_config._CONFIG_REGISTRY:  # noqa: SLF001  (no public list)
        return vllm_config._CONFIG_REGISTRY[kind]  # noqa: SLF001
    with suppress(ValueError):  # an unknown type
        return type(vllm_config.AutoConfig.for_model(kind))
    return _base()


def _base() -> Any:
    """Return the class that transformers derives all configurations from."""
    from vllm.transformers_utils import config as vllm_config

    # 0.23 names it as transformers 4 did, 0.33 as transformers 5 does.
    return getattr(vllm_config, "PreTrainedConfig", None) or vllm_config.PretrainedConfig


def _inspect_in_this_process() -> None:
    """Inspect model classes here: vLLM's own process would not simulate this machine."""
    from vllm.model_executor.models import registry

    def inspect(self: Any) -> Any:
        try:
            return registry._ModelInfo.from_model_cls(self.load_model_cls())  # noqa: SLF001
        except Exception as error:
            raise CannotAnswer(f"{type(error).__name__}: {error}") from error

    registry._LazyRegisteredModel.inspect_model_cls = inspect  # noqa: SLF001

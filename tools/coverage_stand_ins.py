"""Stand-ins with which models that look into their tensors can be built without data.

Only what a configuration decides is recorded, and no cache depends on a tensor's values.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any
from unittest.mock import MagicMock

WITH_CACHES = frozenset({"VoxtralRealtimeGeneration"})
"""Architectures whose tower keeps a cache."""


def without_data() -> None:
    """Let torch answer zeros for tensors without data."""
    import torch

    torch.cuda._lazy_init = lambda: None  # noqa: SLF001
    for name in ("item", "tolist", "__bool__", "__float__", "__int__", "__index__"):
        setattr(torch.Tensor, name, _zeros(getattr(torch.Tensor, name), name))
    copy, move = torch.Tensor.copy_, torch.Tensor.to
    torch.Tensor.copy_ = lambda self, other, *rest, **options: (
        self if self.is_meta or other.is_meta else copy(self, other, *rest, **options)
    )

    def to(self: Any, *rest: Any, **options: Any) -> Any:
        try:
            return move(self, *rest, **options)
        except NotImplementedError:
            return torch.zeros(self.shape, dtype=self.dtype, device="cpu")

    torch.Tensor.to = to
    torch.Tensor.cpu = lambda self: self.to("cpu")
    equal = torch.equal
    torch.equal = lambda one, other: one.is_meta or equal(one, other)
    # A compiled library that only towers need, and that a machine without CUDA cannot load.
    sys.modules["vllm.third_party.deep_gemm"] = MagicMock()
    _plain_classes()
    _processors()
    _tokens()
    _towers()


def _tokenizer(*_given: Any, **_options: Any) -> Any:
    """Return a tokenizer in which every token is number 0: no cache depends on a token."""
    return MagicMock(
        vocab=defaultdict(int),
        get_vocab=lambda: defaultdict(int),
        encode=lambda *_, **__: [0],
        convert_tokens_to_ids=lambda tokens: 0 if isinstance(tokens, str) else [0 for _ in tokens],
    )


def _processors() -> None:
    """Give models that look for special tokens or means of images something without files."""
    from vllm import tokenizers
    from vllm.multimodal import MultiModalRegistry

    for module in (tokenizers, tokenizers.registry):
        module.cached_tokenizer_from_config = _tokenizer
    MultiModalRegistry.create_processor = lambda *_, **__: MagicMock()


class _EveryToken(dict[str, int]):
    """The tokens of a tokenizer that has each one, as number 0."""

    def __contains__(self, token: object) -> bool:
        return True

    def __missing__(self, token: str) -> int:
        return 0


def _tokens() -> None:
    """Give models that look into the files of their tokenizer one with every token."""
    from vllm.transformers_utils import repo_utils

    real = repo_utils.get_hf_file_to_dict

    def read(name: str, *place: Any, **options: Any) -> Any:
        return _EveryToken() if name == "added_tokens.json" else real(name, *place, **options)

    repo_utils.get_hf_file_to_dict = read


def _towers() -> None:
    """Let a tower that cannot be built be absent: its layers keep no cache, with one exception."""
    from vllm.model_executor.models.interfaces import SupportsMultiModal

    real = SupportsMultiModal._mark_tower_model  # noqa: SLF001

    @contextmanager
    def mark(self: Any, *given: Any, targets: Any = None, **options: Any) -> Iterator[None]:
        # A context with targets may have the language model, too.
        needed = targets or type(self).__name__ in WITH_CACHES
        unbuilt = nullcontext() if needed else suppress(Exception)
        with real(self, *given, targets=targets, **options), unbuilt:
            yield

    SupportsMultiModal._mark_tower_model = mark  # noqa: SLF001


def _zeros(real: Any, name: str) -> Any:
    import torch

    def answer(self: Any, *rest: Any, **options: Any) -> Any:
        if not self.is_meta:
            return real(self, *rest, **options)
        with torch.device("cpu"):
            zeros = torch.zeros(self.shape, dtype=torch.float32)
        value = zeros.tolist() if name == "tolist" else 0.0
        kinds = {"__bool__": bool, "__int__": int, "__index__": int}
        return kinds[name](value) if name in kinds else value

    return answer


def _plain_classes() -> None:
    """Give types of hub repositories a configuration class whose parts are configurations, too."""
    from vllm_probe import configuration

    def register(model_type: str, _machine: Any) -> None:
        from transformers import CONFIG_MAPPING, PretrainedConfig
        from vllm.transformers_utils import config

        if model_type in config._CONFIG_REGISTRY or model_type in CONFIG_MAPPING:  # noqa: SLF001
            return

        class Plain(PretrainedConfig):
            def __init__(self, **fields: Any) -> None:
                fields = {key: _part(key, value) for key, value in fields.items()}
                if "llm_config" in fields:
                    fields.setdefault("text_config", fields["llm_config"])
                super().__init__(**fields)
                missing = fields.keys() - self.__dict__.keys()
                self.__dict__.update({key: fields[key] for key in missing})

        Plain.model_type = model_type
        config.AutoConfig.register(model_type, Plain)

    configuration._register_type = register  # noqa: SLF001


class _Block(dict[str, Any]):
    """A part of a list of a configuration: read by attribute, and written as JSON."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return self[name]


def _part(key: str, value: Any) -> Any:
    from transformers import CONFIG_MAPPING, PretrainedConfig

    if key == "block_configs":
        return [_Block({name: _Block(part) for name, part in one.items()}) for one in value]
    is_part = key.endswith("_config") or key in {"encoder", "decoder"}
    if not isinstance(value, dict) or not is_part or "attention" in key:
        return value
    value = json.loads(json.dumps(value))
    return (
        CONFIG_MAPPING.get(value.get("model_type"), PretrainedConfig)(**value)
        if (value.get("model_type") in CONFIG_MAPPING)
        else PretrainedConfig(**value)
    )

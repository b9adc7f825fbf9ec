"""Stand-ins for what models look into while they are built: tensors, tokenizers, processors.

No cache depends on the value of a tensor, on a token or on a means of images.
"""

from collections import defaultdict
from typing import Any
from unittest.mock import MagicMock


def play_data(stand_ins: dict[str, str]) -> None:
    """Let tensors without data answer zeros, and models find every token that they look for."""
    _tensors()
    _processors()
    _tokens()
    stand_ins["values of tensors"] = "zeros, where a model reads one while it is built"
    stand_ins["tokenizers and processors"] = "mocks, where a model reads one while it is built"


def _tensors() -> None:
    import torch

    for name in ("item", "tolist", "__bool__", "__float__", "__int__", "__index__"):
        setattr(torch.Tensor, name, _zeros(getattr(torch.Tensor, name), name))
    copy, move, equal = torch.Tensor.copy_, torch.Tensor.to, torch.equal

    def copied(self: Any, other: Any, *rest: Any, **options: Any) -> Any:
        without = self.is_meta or other.is_meta
        return self if without else copy(self, other, *rest, **options)

    def moved(self: Any, *rest: Any, **options: Any) -> Any:
        try:
            return move(self, *rest, **options)
        except NotImplementedError:
            return torch.zeros(self.shape, dtype=self.dtype, device="cpu")

    torch.Tensor.copy_, torch.Tensor.to = copied, moved
    torch.Tensor.cpu = lambda self: self.to("cpu")
    torch.equal = lambda one, other: one.is_meta or equal(one, other)


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

"""Record the most bytes that are alive while an installed vLLM's tower sees images.

    ~/vllm-0.33/bin/python tools/record_towers.py < questions.jsonl > answers.jsonl

Run by the Python of that vLLM, without a GPU: the model is on torch's meta device, and its tower
runs there; kernels, which would only fill what was allocated, are not launched. Questions as for
`record_weights.py`, and `inputs`: what `embed_multimodal` takes, as the shape of a tensor in the
model's dtype ({"shape": [...]}), several of them in a list, or as numbers.
"""

import contextlib
import sys
import weakref
from typing import Any

import record_cache_groups as groups
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from triton.runtime import jit


class Alive(TorchDispatchMode):
    """Counts the bytes of storages on the meta device until they are freed."""

    def __init__(self) -> None:
        """Start with nothing alive."""
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.peak = 0

    def add(self, tensor: Any) -> None:
        """Count the storage of a tensor, if it is a new one."""
        storage = tensor.untyped_storage()
        place = storage._cdata  # noqa: SLF001  (meta tensors have no address)
        if tensor.device.type != "meta" or place in self.sizes:
            return
        self.sizes[place] = storage.nbytes()
        weakref.finalize(storage, self.sizes.pop, place)
        self.peak = max(self.peak, sum(self.sizes.values()))

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and count what it made."""
        made = func(*args, **(kwargs or {}))
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        known = {one.untyped_storage()._cdata for one in given}  # noqa: SLF001
        for one in tree_leaves(made):
            if isinstance(one, torch.Tensor) and one.untyped_storage()._cdata not in known:  # noqa: SLF001
                self.add(one)
        return made


def _input(given: Any, dtype: torch.dtype) -> Any:
    if isinstance(given, dict):
        return torch.empty(given["shape"], dtype=dtype, device="meta")
    is_listed = any(isinstance(one, dict) for one in given)
    return [_input(one, dtype) for one in given] if is_listed else torch.tensor(given)


def _answer(question: dict[str, Any], machine: Any) -> dict[str, Any]:
    import vllm
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.layers.activation import QuickGELU, SiluAndMul
    from vllm.model_executor.layers.layernorm import RMSNorm
    from vllm_probe import configuration, models

    SiluAndMul.forward_cuda = lambda _self, both: both.new_empty(
        *both.shape[:-1], both.shape[-1] // 2
    )
    QuickGELU.forward_cuda = lambda _self, one: torch.empty_like(one)
    RMSNorm.forward_cuda = lambda _self, one, residual=None: (
        torch.empty_like(one) if residual is None else (torch.empty_like(one), one + residual)
    )
    config = configuration.build(groups.probe_question(question), machine)
    model = models.build(config).model
    ranks = config.parallel_config.tensor_parallel_size

    def gathered(tensor: torch.Tensor, dim: int = -1) -> torch.Tensor:
        shape = list(tensor.shape)
        shape[dim] *= ranks
        return tensor.new_empty(shape)

    exchanges = {
        "tensor_model_parallel_all_reduce": lambda tensor, *_more: tensor,
        "tensor_model_parallel_all_gather": gathered,
    }
    for module in list(sys.modules.values()):
        for name, exchange in exchanges.items():
            if getattr(module, "__name__", "").startswith("vllm") and hasattr(module, name):
                setattr(module, name, exchange)
    dtype, alive = config.model_config.dtype, Alive()
    inputs = {name: _input(one, dtype) for name, one in question["inputs"].items()}
    for one in tree_leaves(inputs):
        alive.add(one)
    with set_current_vllm_config(config), torch.inference_mode(), alive:
        model.embed_multimodal(**inputs)
    return {"vllm": vllm.__version__, "peak_bytes": alive.peak}


if __name__ == "__main__":
    jit.JITFunction.run = lambda *_given, **_options: None
    torch.cuda.device = lambda *_given: contextlib.nullcontext()  # type: ignore[misc, assignment]
    sys.exit(groups.answer_questions(_answer))

"""Record the most bytes that are alive while an installed vLLM's tower sees images.

    ~/vllm-0.33/bin/python tools/record_towers.py < questions.jsonl > answers.jsonl

Run by the Python of that vLLM, without a GPU: the model is on torch's meta device, and its tower
runs there; kernels, which would only fill what was allocated, are not launched. Questions as for
`record_weights.py`, and `grid`: the rows of `image_grid_thw`, with `pixels` numbers of each patch;
a video is an image of several times.
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


def _answer(question: dict[str, Any], machine: Any) -> dict[str, Any]:
    import vllm
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.layers.activation import SiluAndMul
    from vllm_probe import configuration, models

    SiluAndMul.forward_cuda = lambda _self, both: both.new_empty(
        *both.shape[:-1], both.shape[-1] // 2
    )
    config = configuration.build(groups.probe_question(question), machine)
    model = models.build(config).model
    for module in list(sys.modules.values()):
        for name in ("tensor_model_parallel_all_reduce", "tensor_model_parallel_all_gather"):
            if getattr(module, "__name__", "").startswith("vllm") and hasattr(module, name):
                setattr(module, name, lambda tensor, *_more: tensor)
    patches = sum(time * height * width for time, height, width in question["grid"])
    shape, dtype = (patches, question["pixels"]), config.model_config.dtype
    pixels = torch.empty(shape, dtype=dtype, device="meta")
    alive = Alive()
    alive.add(pixels)
    grid = torch.tensor(question["grid"])
    with set_current_vllm_config(config), torch.inference_mode(), alive:
        model.embed_multimodal(pixel_values=pixels, image_grid_thw=grid)
    return {"vllm": vllm.__version__, "peak_bytes": alive.peak}


if __name__ == "__main__":
    jit.JITFunction.run = lambda *_given, **_options: None
    torch.cuda.device = lambda *_given: contextlib.nullcontext()  # type: ignore[misc, assignment]
    sys.exit(groups.answer_questions(_answer))

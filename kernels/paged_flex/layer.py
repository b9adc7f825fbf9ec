"""The tensors of one layer, and checks of those that only some models have."""

from dataclasses import dataclass
from typing import Any

import torch

from workbench.kernels.errors import PagedFlexError
from workbench.kernels.paged_flex.bundles import Extras, ResultStrides, Tensors
from workbench.kernels.paged_flex.shapes import Shapes


@dataclass(frozen=True, slots=True)
class Layer:
    """What the kernels take of a layer."""

    tensors: Tensors
    extras: Extras

    @property
    def attended(self) -> tuple[Tensors, Extras]:
        """Return the arguments of an attend that change from layer to layer."""
        return self.tensors, self.extras

    @property
    def combined(self) -> tuple[torch.Tensor, Extras]:
        """Return those of a combine."""
        return self.tensors.out, self.extras

    @property
    def result_strides(self) -> ResultStrides:
        """Return the strides over tokens and heads of out and lse, and over heads of scales."""
        out, extras = self.tensors.out, self.extras
        lse_token, lse_head = (0, 0) if extras.lse is None else extras.lse.stride()
        return ResultStrides(
            out_token=out.stride(0),
            out_head=out.stride(1),
            lse_token=lse_token,
            lse_head=lse_head,
            key_scale=_step(extras.key_scale),
            value_scale=_step(extras.value_scale),
        )


def _step(scale: torch.Tensor | None) -> int:
    return 0 if scale is None or scale.numel() == 1 else scale.stride(0)


def check_extras(layer: Layer, shapes: Shapes) -> None:
    """Refuse what has another shape, dtype or device than the kernels take."""
    query, extras = layer.tensors.query, layer.extras
    tokens, heads = query.shape[0], shapes.query_heads
    floats = (torch.float32, torch.float16, torch.bfloat16)
    _check("lse", extras.lse, (tokens, heads), (torch.float32,), query.device)
    for name in ("key_scale", "value_scale"):
        given = getattr(extras, name)
        single = isinstance(given, torch.Tensor) and given.numel() == 1
        shape = tuple(given.shape) if single else (shapes.kv_heads,)
        _check(name, given, shape, (torch.float32,), query.device)
    _check("sinks", extras.sinks, (heads,), floats, query.device)
    if extras.sinks is not None and extras.sinks.stride(0) != 1:
        raise PagedFlexError(
            f"sinks has stride {extras.sinks.stride(0)}: call .contiguous()",
            field="sinks",
            given=extras.sinks.stride(0),
            limit=1,
        )


def _check(
    name: str,
    tensor: Any,
    shape: tuple[int, ...],
    dtypes: tuple[torch.dtype, ...],
    device: torch.device,
) -> None:
    if tensor is None:
        return
    found = (
        (tuple(tensor.shape), tensor.dtype, tensor.device)
        if isinstance(tensor, torch.Tensor)
        else type(tensor).__name__
    )
    if not isinstance(tensor, torch.Tensor) or (
        tensor.shape != shape or tensor.dtype not in dtypes or tensor.device != device
    ):
        names = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise PagedFlexError(
            f"{name} must be a tensor {list(shape)} of {names} on {device}; got {found}",
            field=name,
            given=found,
            limit=shape,
        )

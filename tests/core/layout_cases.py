"""What vLLM 0.23.0 answered about layouts (`tests/data/layouts.jsonl.gz`), and our answers."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.recorded import recorded
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.shapes import CacheGeometry
from workbench.core.layouts.shared_tensor import AttentionPages, LayoutName, StatePages, cache_views
from workbench.core.versions.v0_23.backends import BACKENDS

RUNNERS = {"v1": "v1_gpu_model_runner", "v2": "v2_attn_utils"}
"""Runner -> its field in a line."""

Case = dict[str, Any]


@cache
def cases() -> tuple[Case, ...]:
    """Every line, with its number."""
    return tuple({"line": number, **row} for number, row in enumerate(recorded("layouts"), 1))


def attempt(ask: Any) -> Any:
    """The answer, or vLLM's exception in the words of the data."""
    try:
        return ask()
    except LayoutError as error:
        return {"error": error.vllm_exception, "message": error.vllm_text}


def published(view: Any) -> dict[str, Any]:
    """A view in the words of the data."""
    return {
        "shape": list(view.shape),
        "stride": list(view.strides),
        "storage_offset": view.offset_elements,
        "dtype": view.dtype,
        "itemsize": view.itemsize,
    }


def published_views(views: Any) -> dict[str, Any]:
    """The views of one tensor in the words of the data."""
    states = {"mamba": [published(view) for view in views.states]} if views.states else {}
    return {"attn": published(views.attention), **states}


def hybrid_views(case: Case, runner: str, rule: str | None = None) -> Any:
    """The views that a `hybrid` line describes."""
    spec, state = case["attn_spec"], case["mamba_spec"]
    geometry = CacheGeometry(
        spec["block_size"], spec["num_kv_heads"], spec["head_size"], case["cache_dtype"]
    )
    states = StatePages(
        tuple(map(tuple, state["shapes"])), tuple(state["dtypes"]), state["page_size_bytes"]
    )
    return cache_views(
        BACKENDS[case["backend"]].cache,
        AttentionPages(geometry, spec["dtype"], spec["page_size_bytes"], spec["page_size_padded"]),
        states if case["with_mamba"] else None,
        num_blocks=case["num_blocks"],
        kernel_block_size=case["kernel_block_sizes"][0],
        name=LayoutName(case["layout"]),
        runner=runner,
        rule=rule,
    )


def answer(case: Case) -> Case:
    """Our answer to a line: the fields that the data has as answers."""
    layout = BACKENDS[case["backend"]].cache
    if case["kind"] == "shapes":
        geometry = CacheGeometry(
            case["block_size"], case["num_kv_heads"], case["head_size"], case["cache_dtype"]
        )
        return {
            "shape": attempt(lambda: list(layout.shape(case["num_blocks"], geometry))),
            "block_dim": attempt(lambda: layout.block_dim(geometry)),
        }
    if case["kind"] == "stride_orders":
        layers = case["include_num_layers_dimension"]
        order = attempt(lambda: list(layout.stride_order(case["layout"], with_layers=layers)))
        return {"stride_order": order}
    return {
        field: attempt(lambda runner=runner: published_views(hybrid_views(case, runner)))
        for runner, field in RUNNERS.items()
    }


def disagrees(case: Case) -> bool:
    """Whether any field of our answer differs from the line."""
    return any(case[field] != value for field, value in answer(case).items())

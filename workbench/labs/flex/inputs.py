"""Convert a plan and an explicit batch to inputs of the flex kernels: shape, masks, requests."""

import gc
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from workbench.core.arithmetic import cdiv
from workbench.core.errors import ScenarioError, check_name, shown
from workbench.core.flex.batch import CAUSAL, CHUNKED, DOCUMENT, PREFIX, WINDOW, mask_rule
from workbench.core.flex.lab import AS_PLANNED, DTYPES, FlexShape
from workbench.core.flex.plan import FlexPlan, required_flex_plan
from workbench.core.flex.planned import layer_masks
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.kernels.errors import PagedFlexError
from workbench.kernels.mode import TritonMode, triton_mode
from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.device import limits_of
from workbench.kernels.paged_flex.fitting import fitted
from workbench.kernels.paged_flex.layout import Request, random_request
from workbench.kernels.paged_flex.masks import Mask
from workbench.kernels.paged_flex.mods import mask_mod_error
from workbench.kernels.paged_flex.settings import Settings, Tile

TORCH_DTYPES = {name: getattr(torch, name) for name in DTYPES}
INTERPRETER_STEPS = 4096
"""Tiles of keys that numpy may multiply: about half a minute."""
GPU_PAIRS = 2**28
CPU_PAIRS = 2**24
"""Pairs of one head and request that the float64 reference holds at once, eight bytes each."""
TILE = re.compile(r"\s*(-?\d{1,9})\s*(?:x|\s|,)\s*(-?\d{1,9})\s*", re.ASCII | re.IGNORECASE)


def shape_of(plan: Plan) -> FlexShape:
    """Return one rank's attention layer, of the kind that most of them are.

    Errors: ScenarioError without attention or a kernel block.
    """
    masks, block = layer_masks(plan), plan.kernel_block_size
    if not masks or block is None:
        raise ScenarioError(
            "nothing_to_launch", "This plan has no attention layer with a kernel block."
        )
    attention, ranks = masks[0].attention, plan.settings.tensor_parallel
    heads = max(1, attention.num_heads // ranks)
    return FlexShape(
        heads=heads,
        kv_heads=min(attention.kv_heads_per_rank(ranks), heads),
        head_size=attention.head_size,
        page_tokens=plan.block_size,
        block_size=block,
        dtype=plan.model_dtype,
    )


def sizes_of(plan: Plan) -> FlexPlan:
    """Return mask blocks and tiles of a plan. Errors: ScenarioError with what vLLM refuses."""
    flex = required_flex_plan(plan)
    if flex.refusals:
        first = flex.refusals[0]
        raise ScenarioError(first.code, first.message, field=first.field)
    return flex


BFLOAT16_INTERPRETED = (
    "bfloat16 in the interpreter: every number is read as the float32 that it is, products and "
    "sums are float32, weights and results are rounded to nearest, ties to even, as on a GPU"
)


@dataclass(frozen=True, slots=True)
class Machine:
    """Where kernels run in this process, and the launch's dtype."""

    mode: TritonMode
    dtype: str

    @property
    def is_gpu(self) -> bool:
        """Return whether timing is possible."""
        return self.mode.mode == "gpu"

    @property
    def device(self) -> str:
        """Return the device's name."""
        return self.mode.device or "CPU"

    @property
    def torch_device(self) -> torch.device:
        """Return the device of the tensors."""
        return torch.device(self.mode.torch_device)

    @property
    def note(self) -> str:
        """Return how our kernels compute here, where that differs from a GPU; else nothing."""
        return "" if self.is_gpu or self.dtype != "bfloat16" else BFLOAT16_INTERPRETED


def machine_for(planned: str, requested: str) -> Machine:
    """Return the machine with the launch's dtype. Errors: ScenarioError for an unknown dtype."""
    mode = triton_mode()
    if mode.mode == "unavailable":
        raise ScenarioError("no_kernel_can_run", f"No kernel can run here: {mode.reason}.")
    dtype = planned if requested == AS_PLANNED else requested
    check_name("Dtype", dtype, DTYPES, "dtype")
    return Machine(mode, dtype)


def kernel_mask(kind: str, size: int, requests: int) -> Mask:
    """Return the device mask of a kind of `core.flex.batch`; all `requests` share its size."""
    mask_rule(kind, size)  # refuses the same sizes as the mask's picture
    if kind == PREFIX:
        return masks.prefix_lm([[(0, size - 1)]] * requests)
    if kind in {CAUSAL, DOCUMENT}:
        return masks.causal() if kind == CAUSAL else masks.full()
    return {WINDOW: masks.sliding_window, CHUNKED: masks.chunked}[kind](size)


def with_tile(settings: Settings, text: str) -> Settings:
    """Return `settings` with an explicit prefill tile, "64 x 32"; unchanged if it is empty.

    Errors: ScenarioError if it is not a pair; PagedFlexError for a tile that no kernel supports.
    """
    sizes = tile_sizes(text)
    if sizes is None:
        return settings
    tile = Tile(*sizes, settings.prefill.num_warps, settings.prefill.num_stages)
    return replace(settings, prefill=tile, as_given=True)


def tile_sizes(text: str) -> tuple[int, int] | None:
    """Return (queries, keys) of an explicit tile; None if it is empty."""
    is_text = isinstance(text, str)
    if is_text and not text.strip():
        return None
    found = TILE.fullmatch(text) if is_text else None
    if found is None:
        raise ScenarioError(
            "tile_not_readable",
            f"Invalid tile {shown(text)}. Expected queries x keys, e.g. 64 x 32, or empty for the "
            "default.",
            field="tile",
        )
    return int(found[1]), int(found[2])


def fitted_settings(settings: Settings, shape: FlexShape, machine: Machine) -> Settings:
    """Return `settings` as a launch in this shape takes them on this machine."""
    return fitted(
        settings,
        head_dim=shape.head_size,
        group=shape.group,
        dtype=machine.dtype,
        limits=limits_of(machine.torch_device),
    )


def tile_text(settings: Settings) -> str:
    """Describe the tiles."""
    words = [f"prefill {settings.prefill.block_m} x {settings.prefill.block_n}"]
    if settings.decode is not None:
        decode = f"decode {settings.decode.block_m} x {settings.decode.block_n}"
        split = f", splits of {settings.split_tokens} keys or more" if settings.split_tokens else ""
        words.append(decode + split)
    return "; ".join(words)


def random_requests(
    batch: Sequence[BatchRequest], shape: FlexShape, dtype: str, seed: int = 0
) -> list[Request]:
    """Draw normal numbers for every request of the batch, in the shape of the plan."""
    return [
        random_request(
            request.sequence_tokens,
            request.query_tokens,
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            dim=shape.head_size,
            dtype=TORCH_DTYPES[dtype],
            seed=seed + index,
        )
        for index, request in enumerate(batch)
    ]


def tile_steps(batch: Sequence[BatchRequest], shape: FlexShape, settings: Settings) -> int:
    """Return the most key tiles that a launch multiplies: programs times the keys of each."""
    rows, keys = settings.prefill.block_m, settings.prefill.block_n
    return shape.kv_heads * sum(
        cdiv(request.query_tokens * shape.group, rows) * cdiv(request.sequence_tokens, keys)
        for request in batch
    )


def check_size(
    batch: Sequence[BatchRequest], machine: Machine, steps: int, *, most: int = INTERPRETER_STEPS
) -> None:
    """Refuse what would take minutes, or a reference that would not fit.

    Errors: ScenarioError with the largest size that is allowed.
    """
    pairs = max(request.query_tokens * request.sequence_tokens for request in batch)
    allowed = GPU_PAIRS if machine.is_gpu else CPU_PAIRS
    if pairs > allowed:
        longest = max(batch, key=lambda request: request.query_tokens * request.sequence_tokens)
        raise ScenarioError(
            "batch_too_large_to_check",
            f"{longest.query_tokens:,} queries over {longest.sequence_tokens:,} keys are "
            f"{pairs:,} pairs, and the float64 reference holds {allowed:,} of one head. Nearest "
            f"valid: {allowed // longest.sequence_tokens:,} queries at this length.",
            field="batch",
        )
    if machine.is_gpu or steps <= most:
        return
    raise ScenarioError(
        "batch_too_large_to_interpret",
        f"This launch multiplies {steps:,} tiles one by one in Triton's interpreter, which takes "
        f"up to {most:,}: make the batch about {cdiv(steps, most)} times smaller, the heads fewer "
        "with tensor parallelism, or use a GPU.",
        field="batch",
    )


@contextmanager
def kernel_errors_as_scenario_errors(doing: str, custom_mask: Mask | None = None) -> Iterator[None]:
    """Turn refusals of a kernel, and memory that runs out, into one ScenarioError.

    doing: the attempted work, for the message. custom_mask: a mask whose mask_mod is the caller's;
    its failures in the compiler or the interpreter are converted too. Other errors pass
    through. Memory that the failed launch held is released.
    """
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import InterpreterError, OutOfResources

    try:
        yield
    except PagedFlexError as error:
        raise ScenarioError("kernel_refuses", str(error), field=error.field) from error
    except (CompilationError, InterpreterError) as error:
        if custom_mask is None:
            raise
        raise ScenarioError(
            "mask_stops", str(mask_mod_error(custom_mask, error)), field="mask"
        ) from error
    except OutOfResources as error:
        raise ScenarioError(
            "out_of_shared_memory",
            f"{doing} does not fit into one program: it needs {error.required:,} of {error.name}, "
            f"and this device has {error.limit:,}. Use a smaller tile, for example 64 x 32.",
            field="tile",
        ) from error
    except (MemoryError, RuntimeError) as error:
        # the allocator of the CPU has no exception type of its own
        is_memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not is_memory and "can't allocate memory" not in str(error):
            raise
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        first = str(error).strip().splitlines()
        raise ScenarioError(
            "out_of_memory",
            f"{doing} does not fit into the memory of this device. Take fewer or shorter requests. "
            f"The allocator says: {first[0][:300] if first else type(error).__name__}",
            field="batch",
        ) from error

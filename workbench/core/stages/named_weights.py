"""Layers that read the weight of another one as they are built, where it has another name."""

from workbench.core.described import COMPRESSED
from workbench.core.formats import FOUR_BITS
from workbench.core.missing_kernels import quantized_parts
from workbench.core.online import is_online
from workbench.core.ranks import Split, split_of
from workbench.core.stages.other_splits import other_splits, written
from workbench.core.weights import Part
from workbench.core.working_plan import WorkingPlan

ROUTER = "altup.modality_router"
"""The layer of Gemma 3n whose dtype a scale has."""


def named_weights(run: WorkingPlan) -> None:
    """Refuse packed weights that a layer reads under the name of plain ones.

    Source: `Gemma3nAltUp.__init__`, 0.23 and 0.33; `MambaMixer2.__init__`, 0.23, where ranks do not
    divide the groups of its state.
    """
    if run.model.quantization is None or is_online(run.model):
        return
    split, parts = split_of(run), quantized_parts(run)
    part = next((one for one in parts if _is_read(run, one, split) and _is_renamed(run, one)), None)
    if part is None:
        return
    valid = other_splits(run, lambda other: not _is_read(run, part, other))
    advice = f"Use {written(valid[:1])}, or a" if valid else "Use a"
    run.problem(
        "weight_renamed",
        operands={"part": part.name, "quantization": run.model.quantization},
        candidates=tuple(valid),
        advice=advice,
    )


def _is_read(run: WorkingPlan, part: Part, split: Split) -> bool:
    is_joined = part.merges % split.ranks != 0
    return part.name == ROUTER or (is_joined and run.rules.quantization.reads_joined_weights)


def _is_renamed(run: WorkingPlan, part: Part) -> bool:
    """Return whether a format has no `weight`: `qweight` of integers, `weight_packed` of others."""
    stored, is_compressed = part.stored, run.model.quantization == COMPRESSED
    return stored is not None and (stored.is_packed or (is_compressed and stored.bits == FOUR_BITS))

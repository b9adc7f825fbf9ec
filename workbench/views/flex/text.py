"""Flex attention of a plan in words and tables: sizes, refusals, targets, the cost of a mask."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench.core.flex.build import Visits
from workbench.core.flex.plan import FlexPlan
from workbench.core.flex.planned import LayerMask
from workbench.core.flex.sizes import FlexRefusal
from workbench.views.html import Html, document, note, problem_box, quoted, records, table
from workbench.views.settings import in_labels
from workbench.views.units import bytes_text, counted


class TargetLimit(NamedTuple):
    """Shared memory of one device: as vLLM reads it, and as one program can really use it.

    seen_bytes chooses the tiles; limit_bytes is where a program stops fitting.
    """

    title: str
    seen_bytes: int
    limit_bytes: int


def flex_html(flex: FlexPlan) -> str:
    """Return the three sizes, the build, and what stops it."""
    q, kv = flex.mask.q_block_size, flex.mask.kv_block_size
    memory = flex.shared_memory_bytes
    rows = [
        ("cache block", f"{flex.cache_block_size:,}", "kernel block of the plan"),
        ("mask block", f"{q:,} x {kv:,}", "queries x keys; one entry of the mask"),
        ("tile", _tile(flex, "none"), "BLOCK_M x BLOCK_N; one step of the kernel"),
        ("build", flex.build, BUILDS[flex.build]),
        (
            "tiles chosen for",
            "no limit" if memory is None else bytes_text(memory),
            "opt-in shared memory, as vLLM reads it",
        ),
        (
            "batch invariant",
            flex.batch_invariant,
            "where it is on: tiles of 16, and no variant without edge masks",
        ),
    ]
    return document(
        table(("size", "tokens", "what it is"), rows), *map(refusal_html, flex.refusals)
    )


def flex_text(flex: FlexPlan) -> str:
    """Return the three sizes, the build, and what stops it, for a terminal."""
    q, kv = flex.mask.q_block_size, flex.mask.kv_block_size
    sizes = (
        f"{flex.build} build: cache block {flex.cache_block_size:,}, mask block {q:,} x {kv:,}, "
        f"tile {_tile(flex, 'none')} tokens"
    )
    return "\n".join([sizes, *(f"✕ {in_labels(one.message)}" for one in flex.refusals)])


def _tile(flex: FlexPlan, otherwise: str) -> str:
    return otherwise if flex.tiles is None else f"{flex.tiles.block_m} x {flex.tiles.block_n}"


BUILDS = {
    "direct": "pages are listed from the block table",
    "generic": "every pair of query and slot is evaluated",
}


def refusal_html(refusal: FlexRefusal) -> Html:
    """Return one refusal: both numbers, and the message of vLLM or torch."""
    said = quoted(refusal.exception or "torch, while it compiles", refusal.vllm_text)
    return problem_box("✕ error", in_labels(refusal.message), said, code=refusal.code)


def targets_html(plans: Sequence[tuple[TargetLimit, FlexPlan]]) -> str:
    """Return the tiles of every target, and whether keys or queries alone exceed its shared memory.

    The bytes are derived, not measured, and a lower bound: they can exclude a tile, never admit it.
    """
    rows = []
    for target, flex in plans:
        size = flex.key_tile_bytes
        fits = "not excluded" if flex.too_large(target.limit_bytes) is None else "✕ too large"
        rows.append(
            {
                "device": target.title,
                "shared memory": bytes_text(target.limit_bytes),
                "tile": _tile(flex, "refused"),
                "one tile of keys": "" if size is None else bytes_text(size),
                "fits": "" if size is None else fits,
            }
        )
    return document(
        records(rows),
        note(
            "One tile of keys is the least that a program keeps: derived from the sizes, not "
            "measured. A kernel needs more, so a tile that is not excluded may still not fit."
        ),
    )


def visits_html(found: Visits, dropped: int) -> str:
    """Return the cost of a mask, in blocks and pairs."""
    share = found.pairs / found.evaluated_pairs if found.evaluated_pairs else 0
    rows: list[tuple[str, Any]] = [
        ("KV blocks visited", found.visited),
        ("of them without any visible key", found.wasted),
        ("loaded by another group before", found.repeated),
        ("dropped as listed twice", dropped),
        ("pairs computed", found.evaluated_pairs),
        ("visible pairs", f"{found.pairs:,} ({share:.1%})"),
    ]
    if found.missed:
        rows.append(("✕ visible, but never visited: a wrong result", found.missed))
    return document(table(("mask", "count"), rows))


def masks_html(masks: Sequence[LayerMask]) -> str:
    """Return one line: which layers have the mask that the lab starts with, and the others'."""
    if not masks:
        return ""
    first, *others = masks
    every = sum(mask.layers for mask in masks)
    whose = f"all {every:,}" if not others else f"{first.layers:,} of {every:,}"
    rest = ", ".join(f"{mask.layers:,} {_mask(mask)}" for mask in others)
    starts = f"The mask starts as that of {whose} attention layers: {_mask(first)}."
    return document(note(f"{starts} The other layers: {rest}." if rest else starts))


def _mask(mask: LayerMask) -> str:
    return mask.kind if mask.tokens is None else f"{mask.kind} of {counted(mask.tokens, 'token')}"

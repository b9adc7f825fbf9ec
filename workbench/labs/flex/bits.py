"""The batch-invariance lab: one request in many batches and layouts, and every bit that differs.

Each trial is computed under every way to choose tiles, so that a promise can be compared with a
control that breaks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from workbench.core.errors import ScenarioError
from workbench.core.flex.lab import (
    AS_PLANNED,
    BitLab,
    BitPlace,
    BitRun,
    BitTrial,
    FlexPlace,
    FlexShape,
)
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.kernels.paged_flex.api import default_settings, paged_attention
from workbench.kernels.paged_flex.bitwise import Kind, compare_bits, promised
from workbench.kernels.paged_flex.layout import PagedInputs, Request, lay_out
from workbench.kernels.paged_flex.settings import Settings, Tile, fitted
from workbench.labs.flex.errors import kernel_errors_as_scenario_errors
from workbench.labs.flex.inputs import (
    INTERPRETER_STEPS,
    Machine,
    check_size,
    kernel_mask,
    machine_for,
    random_requests,
    shape_of,
    tile_steps,
    tile_text,
)
from workbench.labs.jobs import Job

BITWISE_MODE, FAST_MODE, BY_SIZE_MODE = MODES = (
    "bitwise: one tile for all",
    "fast: tiles by the request",
    "tiles by batch size",
)
"""The last one is the control: its results depend on the other requests."""
ALONE_TILE, CROWD_TILE = Tile(16, 16), Tile(32, 32)
"""Of the control: two tiles that sum keys in different portions."""
OTHER_PAGES = (16, 48, 64, 528)
MOST_PLACES = 5
CHUNK_MASKS = ("causal", "sliding window", "chunked")
"""Masks that look back only: under others a chunk has no later keys to see."""


@dataclass(frozen=True, slots=True)
class _Scene:
    """What is drawn once: the numbers of all requests, and how to compute a layout."""

    subject: Request
    companions: tuple[Request, ...]
    block_size: int
    ratio: int


@dataclass(frozen=True, slots=True)
class _Surrounding:
    """One way to serve the request: row `place` of each layout, in order, is a part of it."""

    kind: Kind
    detail: str
    layouts: tuple[PagedInputs, ...]
    place: int


def bit_lab(
    plan: Plan,
    batch: Sequence[BatchRequest],
    *,
    subject: int,
    mask: str = "causal",
    mask_tokens: int = 64,
    dtype: str = AS_PLANNED,
    batches: int = 4,
    seed: int = 0,
    job: Job | None = None,
) -> BitLab:
    """Run request `subject` of a batch alone, then with other requests, on other pages, in chunks.

    On a GPU with all heads of the plan; interpreted with one KV head and its group, since heads
    are independent. batches: random compositions. Errors: as `launch_flex`.
    """
    job = job or Job()
    if not 0 <= subject < len(batch):
        raise ScenarioError(
            "no_such_request",
            f"The batch has requests 0 to {len(batch) - 1}; got {subject}.",
            field="request",
        )
    whole = shape_of(plan)
    machine = machine_for(whole.dtype, dtype)
    shape = whole if machine.is_gpu else replace(whole, heads=whole.group, kv_heads=1)
    ways = {name: _settings(name, shape, machine) for name in MODES}
    steps = max(tile_steps(batch, shape, ways[name](9)) for name in MODES)
    # a trial has a batch on average half as long, under three ways to choose tiles
    check_size(batch, machine, steps, most=INTERPRETER_STEPS // 4)
    with kernel_errors_as_scenario_errors(f"This lab ({shape})"):
        numbers = random_requests(batch, shape, machine.dtype, seed)
        others = tuple(request for i, request in enumerate(numbers) if i != subject)
        extra = _extra_requests(batch[subject])
        scene = _Scene(
            numbers[subject],
            (*others, *random_requests(extra, shape, machine.dtype, seed + 99)),
            shape.block_size,
            shape.page_tokens // shape.block_size,
        )
        kinds_left = mask in CHUNK_MASKS
        found = _compared(scene, ways, mask, mask_tokens, batches, seed, kinds_left, job)
    queries, total = batch[subject].query_tokens, batch[subject].sequence_tokens
    return BitLab(
        plan=plan,
        shape=shape,
        place=FlexPlace(
            "our kernel", machine.mode.mode, machine.device, _note(machine, whole, shape)
        ),
        request=f"request {subject}: {queries:,} queries over {total:,} keys",
        first_token=total - queries,
        tokens=queries,
        runs=tuple(
            BitRun(
                name,
                _tiles(name, ways[name]),
                name == BY_SIZE_MODE,
                tuple(promised(ways[name](1))) if name != BY_SIZE_MODE else ("pages", "page size"),
                tuple(found[name]),
            )
            for name in MODES
        ),
    )


def _note(machine: Machine, whole: FlexShape, shape: FlexShape) -> str:
    notes = [machine.note] if machine.note else []
    if shape != whole:
        notes.append(f"1 of {whole.kv_heads} KV heads, with its {shape.group} query heads")
    return "; ".join(notes)


def _extra_requests(request: BatchRequest) -> tuple[BatchRequest, ...]:
    """Return two extra requests for the random batches, so that no batch is a single request."""
    tokens = request.sequence_tokens
    return (BatchRequest(1, tokens + 7), BatchRequest(min(5, tokens), tokens))


def _settings(name: str, shape: FlexShape, machine: Machine) -> Callable[[int], Settings]:
    """Return number of requests -> settings; only the control depends on the number."""
    device = torch.device(machine.mode.torch_device)

    def fit(settings: Settings) -> Settings:
        return fitted(settings, head_dim=shape.head_size, group=shape.group, dtype=machine.dtype)

    if name == BY_SIZE_MODE:
        alone, crowd = (fit(Settings(t, as_given=True)) for t in (ALONE_TILE, CROWD_TILE))
        return lambda requests: alone if requests == 1 else crowd
    fixed = fit(default_settings(device, bitwise=name == BITWISE_MODE))
    return lambda _requests: fixed


def _tiles(name: str, way: Callable[[int], Settings]) -> str:
    if name != BY_SIZE_MODE:
        return tile_text(way(1))
    return f"alone {tile_text(way(1))}; in a batch {tile_text(way(2))}"


def _compared(
    scene: _Scene,
    ways: dict[str, Callable[[int], Settings]],
    mask: str,
    mask_tokens: int,
    batches: int,
    seed: int,
    in_chunks: bool,
    job: Job,
) -> dict[str, list[BitTrial]]:
    """Run every trial under every way, in turn."""

    def run(paged: PagedInputs, place: int, way: Callable[[int], Settings]) -> Tensor:
        job.check()
        rows = paged.batch.num_requests  # dummies count, as in a library that chooses by it
        out = paged_attention(
            paged.query,
            paged.kv_cache,
            paged.batch,
            mask=kernel_mask(mask, mask_tokens, rows),
            settings=way(rows),
        )
        return out[paged.tokens_of(place)].cpu()

    alone_layout = lay_out([scene.subject], scene.block_size, ratio=scene.ratio, seed=seed)
    alone = {name: run(alone_layout, 0, way) for name, way in ways.items()}
    found: dict[str, list[BitTrial]] = {name: [] for name in ways}
    total = batches + 1 + 2 + len(_page_sizes(scene)) + (2 if in_chunks else 0)
    for done, surrounding in enumerate(_surroundings(scene, batches, seed, in_chunks)):
        job.report(f"Trial {done + 1} of {total} ...")
        for name, way in ways.items():
            parts = [run(paged, surrounding.place, way) for paged in surrounding.layouts]
            other = torch.cat(parts)
            found[name].append(_trial(surrounding, alone[name], other, scene.subject))
    return found


def _page_sizes(scene: _Scene) -> tuple[int, ...]:
    return tuple(size for size in OTHER_PAGES if size != scene.block_size)


def _surroundings(
    scene: _Scene, batches: int, seed: int, in_chunks: bool
) -> Iterator[_Surrounding]:
    """Lay out the trials one by one."""
    random, size, ratio = np.random.default_rng(seed), scene.block_size, scene.ratio
    me = scene.subject
    for turn in range(batches):
        count = int(random.integers(1, len(scene.companions) + 1))
        chosen = random.permutation(len(scene.companions))[:count]
        rows = [me, *(scene.companions[i] for i in chosen)]
        order = random.permutation(len(rows)).tolist()
        place = order.index(0)
        layout = lay_out([rows[i] for i in order], size, ratio=ratio, seed=seed + 1 + turn)
        yield _Surrounding("batch", f"row {place} of a batch of {len(rows)}", (layout,), place)
    padded = lay_out([me], size, ratio=ratio, seed=seed, dummies=(0, 2), padding=3)
    yield _Surrounding("padding", "2 dummy requests, 3 padding queries", (padded,), 1)
    for turn in range(2):
        moved = lay_out([me], size, ratio=ratio, seed=seed + 50 + turn, spare=9)
        yield _Surrounding("pages", f"permutation {turn + 1} of the pages", (moved,), 0)
    for other in _page_sizes(scene):
        layout = lay_out([me], other, seed=seed)
        yield _Surrounding("page size", f"pages of {other} tokens", (layout,), 0)
    if in_chunks:
        for pieces in (2, 3):
            yield _chunks(scene, pieces, random, seed)


def _chunks(scene: _Scene, pieces: int, random: np.random.Generator, seed: int) -> _Surrounding:
    """Split the queries into steps, each over the keys up to its own end."""
    me = scene.subject
    queries, total = len(me.queries), len(me.keys)
    cuts = sorted((1 + random.permutation(max(queries - 1, 0))[: pieces - 1]).tolist())
    layouts, start = [], 0
    for end in (*cuts, queries):
        reach = total - queries + end
        step = Request(me.keys[:reach], me.values[:reach], me.queries[start:end])
        layouts.append(lay_out([step], scene.block_size, ratio=scene.ratio, seed=seed))
        start = end
    detail = f"cut after query {', '.join(map(str, cuts))}" if cuts else "one query: nothing to cut"
    return _Surrounding("chunks", detail, tuple(layouts), 0)


def _trial(surrounding: _Surrounding, alone: Tensor, other: Tensor, me: Request) -> BitTrial:
    """Count and locate what differs; tokens are positions in the request."""
    counted = compare_bits(surrounding.kind, surrounding.detail, alone, other)
    word = torch.int16 if alone.element_size() == 2 else torch.int32
    differs = alone.contiguous().view(word) != other.contiguous().view(word)
    offset = len(me.keys) - len(me.queries)
    places = tuple(
        BitPlace(
            offset + token,
            head,
            element,
            float(alone[token, head, element]),
            float(other[token, head, element]),
        )
        for token, head, element in differs.nonzero()[:MOST_PLACES].tolist()
    )
    return BitTrial(
        kind=counted.kind,
        detail=counted.detail,
        elements=counted.elements,
        differing=counted.differing,
        largest=counted.largest,
        first=places,
        per_token=tuple(differs.flatten(1).sum(1).tolist()),
    )

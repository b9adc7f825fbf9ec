"""The batch-invariance lab: one request in many batches and layouts, and every bit that differs.

Each trial is computed under every way to choose tiles, so that a promise can be compared with a
control that breaks it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workbench.core.errors import check_integer
from workbench.core.flex import lab
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.kernels.paged_flex.api import paged_attention
from workbench.kernels.paged_flex.bitwise import Kind, compare_bits, promised
from workbench.kernels.paged_flex.device import default_settings
from workbench.kernels.paged_flex.layout import PagedInputs, Request, lay_out
from workbench.kernels.paged_flex.masks import Mask
from workbench.kernels.paged_flex.settings import Settings, Tile
from workbench.labs.flex import inputs
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
MOST_BATCHES, LARGEST_SEED = 1000, 2**32 - 1
Way = Callable[[int], Settings]
"""Number of requests -> how to launch the kernel."""
CHUNK_MASKS = ("causal", "sliding window", "chunked")
"""Masks that look back only: under others a chunk has no later keys to see."""


@dataclass(frozen=True, slots=True)
class _Surrounding:
    """One way to serve the request: row `place` of each layout, in order, is a part of it."""

    kind: Kind
    detail: str
    layouts: tuple[PagedInputs, ...]
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """What is drawn once: the numbers of all requests, and in how many ways they are laid out."""

    subject: Request
    companions: tuple[Request, ...]
    block_size: int
    ratio: int
    batches: int
    seed: int
    in_chunks: bool

    def laid_out(self, *rows: Request, turn: int = 0, **options: Any) -> PagedInputs:
        """Lay requests out on pages of the plan."""
        seed = self.seed + turn
        return lay_out(list(rows), self.block_size, ratio=self.ratio, seed=seed, **options)

    @property
    def page_sizes(self) -> tuple[int, ...]:
        """Return the other sizes that are tried."""
        return tuple(size for size in OTHER_PAGES if size != self.block_size)

    @property
    def trials(self) -> int:
        """Return the number of surroundings."""
        return self.batches + 1 + 2 + len(self.page_sizes) + (2 if self.in_chunks else 0)

    def surroundings(self) -> Iterator[_Surrounding]:
        """Lay out the trials one by one."""
        random, me = np.random.default_rng(self.seed), self.subject
        for turn in range(self.batches):
            count = int(random.integers(1, len(self.companions) + 1))
            chosen = random.permutation(len(self.companions))[:count]
            rows = [me, *(self.companions[i] for i in chosen)]
            order = random.permutation(len(rows)).tolist()
            place = order.index(0)
            layout = self.laid_out(*(rows[i] for i in order), turn=1 + turn)
            yield _Surrounding("batch", f"row {place} of a batch of {len(rows)}", (layout,), place)
        padded = self.laid_out(me, dummies=(0, 2), padding=3)
        yield _Surrounding("padding", "2 dummy requests, 3 padding queries", (padded,), 1)
        for turn in range(2):
            moved = self.laid_out(me, turn=50 + turn, spare=9)
            yield _Surrounding("pages", f"permutation {turn + 1} of the pages", (moved,), 0)
        for size in self.page_sizes:
            layout = lay_out([me], size, seed=self.seed)
            yield _Surrounding("page size", f"pages of {size} tokens", (layout,), 0)
        for pieces in (2, 3) if self.in_chunks else ():
            yield self._chunks(pieces, random)

    def _chunks(self, pieces: int, random: np.random.Generator) -> _Surrounding:
        """Split the queries into steps, each over the keys up to its own end."""
        me, detail = self.subject, "one query: nothing to cut"
        queries, total = len(me.queries), len(me.keys)
        cuts = sorted((1 + random.permutation(max(queries - 1, 0))[: pieces - 1]).tolist())
        if cuts:
            detail = f"cut after query {', '.join(map(str, cuts))}"
        layouts = []
        for start, end in pairwise((0, *cuts, queries)):
            reach = total - queries + end
            step = Request(me.keys[:reach], me.values[:reach], me.queries[start:end])
            layouts.append(self.laid_out(step))
        return _Surrounding("chunks", detail, tuple(layouts), 0)


def bit_lab(
    plan: Plan,
    batch: Sequence[BatchRequest],
    *,
    subject: int,
    mask: str = "causal",
    mask_tokens: int = 64,
    dtype: str = lab.AS_PLANNED,
    batches: int = 4,
    seed: int = 0,
    job: Job | None = None,
) -> lab.BitLab:
    """Run request `subject` of a batch alone, then with other requests, on other pages, in chunks.

    On a GPU with all heads of the plan; interpreted with one KV head and its group, since heads
    are independent. batches: random compositions. Errors: as `launch_flex`.
    """
    job = job or Job()
    check_integer("request", subject, 0, len(batch) - 1, "the last of the batch")
    check_integer("batches", batches, 1, MOST_BATCHES, "the most random batches")
    check_integer("seed", seed, 0, LARGEST_SEED, "the largest seed")
    whole = inputs.shape_of(plan)
    machine = inputs.machine_for(whole.dtype, dtype)
    shape = whole if machine.is_gpu else replace(whole, heads=whole.group, kv_heads=1)
    ways = {name: _settings(name, shape, machine) for name in MODES}
    steps = max(inputs.tile_steps(batch, shape, ways[name](9)) for name in MODES)
    # a trial has a batch on average half as long, under three ways to choose tiles
    inputs.check_size(batch, machine, steps, most=inputs.INTERPRETER_STEPS // 4)
    chosen = batch[subject]
    queries, total = chosen.query_tokens, chosen.sequence_tokens
    # two extra requests, so that no random batch is a single request
    extra = (BatchRequest(1, total + 7), BatchRequest(min(5, total), total))
    with inputs.kernel_errors_as_scenario_errors(f"This lab ({shape})"):
        numbers = inputs.random_requests(batch, shape, machine.dtype, seed)
        others = tuple(request for i, request in enumerate(numbers) if i != subject)
        scene = _Scene(
            subject=numbers[subject],
            companions=(*others, *inputs.random_requests(extra, shape, machine.dtype, seed + 99)),
            block_size=shape.block_size,
            ratio=shape.page_tokens // shape.block_size,
            batches=batches,
            seed=seed,
            in_chunks=mask in CHUNK_MASKS,
        )
        found = _compared(scene, ways, partial(inputs.kernel_mask, mask, mask_tokens), job)
    notes = [machine.note] if machine.note else []
    if shape != whole:
        notes.append(f"1 of {whole.kv_heads} KV heads, with its {shape.group} query heads")
    return lab.BitLab(
        plan=plan,
        shape=shape,
        place=lab.FlexPlace("our kernel", machine.mode.mode, machine.device, "; ".join(notes)),
        request=f"request {subject}: {queries:,} queries over {total:,} keys",
        first_token=total - queries,
        tokens=queries,
        runs=tuple(_run(name, ways[name], found[name]) for name in MODES),
    )


def _run(name: str, way: Way, trials: Sequence[lab.BitTrial]) -> lab.BitRun:
    if name == BY_SIZE_MODE:
        tiles = f"alone {inputs.tile_text(way(1))}; in a batch {inputs.tile_text(way(2))}"
        return lab.BitRun(name, tiles, True, ("pages", "page size"), tuple(trials))
    return lab.BitRun(name, inputs.tile_text(way(1)), False, tuple(promised(way(1))), tuple(trials))


def _settings(name: str, shape: lab.FlexShape, machine: inputs.Machine) -> Way:
    """Return the way to choose settings; only the control depends on the number of requests."""
    if name == BY_SIZE_MODE:
        alone, crowd = (
            inputs.fitted_settings(Settings(tile, as_given=True), shape, machine)
            for tile in (ALONE_TILE, CROWD_TILE)
        )
        return lambda requests: alone if requests == 1 else crowd
    shipped = default_settings(machine.torch_device, bitwise=name == BITWISE_MODE)
    fixed = inputs.fitted_settings(shipped, shape, machine)
    return lambda _requests: fixed


def _compared(
    scene: _Scene, ways: dict[str, Way], mask: Callable[[int], Mask], job: Job
) -> dict[str, list[lab.BitTrial]]:
    """Run every trial under every way, in turn. mask: of a number of requests."""

    def run(paged: PagedInputs, place: int, way: Way) -> Tensor:
        job.check()
        rows = paged.batch.num_requests  # dummies count, as in a library that chooses by it
        given = (paged.query, paged.kv_cache, paged.batch)
        out = paged_attention(*given, mask=mask(rows), settings=way(rows))
        return out[paged.tokens_of(place)].cpu()

    alone = {name: run(scene.laid_out(scene.subject), 0, way) for name, way in ways.items()}
    found: dict[str, list[lab.BitTrial]] = {name: [] for name in ways}
    for done, surrounding in enumerate(scene.surroundings()):
        job.report(f"Trial {done + 1} of {scene.trials} ...")
        for name, way in ways.items():
            parts = [run(paged, surrounding.place, way) for paged in surrounding.layouts]
            found[name].append(_trial(surrounding, alone[name], torch.cat(parts), scene.subject))
    return found


def _trial(surrounding: _Surrounding, alone: Tensor, other: Tensor, me: Request) -> lab.BitTrial:
    """Count and locate what differs; tokens are positions in the request."""
    counted = compare_bits(surrounding.kind, surrounding.detail, alone, other)
    word = torch.int16 if alone.element_size() == 2 else torch.int32
    differs = alone.contiguous().view(word) != other.contiguous().view(word)
    offset = len(me.keys) - len(me.queries)
    places = map(tuple, differs.nonzero()[:MOST_PLACES].tolist())
    return lab.BitTrial(
        kind=counted.kind,
        detail=counted.detail,
        elements=counted.elements,
        differing=counted.differing,
        largest=counted.largest,
        first=tuple(
            lab.BitPlace(offset + at[0], at[1], at[2], float(alone[at]), float(other[at]))
            for at in places
        ),
        per_token=tuple(differs.flatten(1).sum(1).tolist()),
    )

"""Three mistakes made on purpose, with real kernels: which token lands in whose block.

Each function runs a scene once as it should be and once wrongly, and reports every token.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from workbench.kernels.block_table.batch import Batch
from workbench.kernels.block_table.faithful import FaithfulPath
from workbench.kernels.block_table.groups import ContextParallel, TableGroup
from workbench.kernels.block_table.host import HostTables
from workbench.kernels.block_table.path import Allocate
from workbench.kernels.mode import triton_mode

NULL_BLOCK = 0
NO_BLOCK = -1


@dataclass(frozen=True)
class Scene:
    """Requests with their blocks: block_ids[request][group] lists manager blocks.

    tokens[request] are stored; block ids are one pool's, so no two rows may share any.
    """

    groups: tuple[TableGroup, ...]
    tokens: tuple[int, ...]
    block_ids: tuple[tuple[tuple[int, ...], ...], ...]

    @cached_property
    def owners(self) -> dict[int, tuple[int, int]]:
        """Manager block -> (request, group) that owns it."""
        return {
            block: (request, group)
            for request, per_group in enumerate(self.block_ids)
            for group, ids in enumerate(per_group)
            for block in ids
        }

    @property
    def num_blocks(self) -> int:
        """Blocks of the pool, the null block included."""
        return max(self.owners, default=NULL_BLOCK) + 1


def filled_scene(groups: Sequence[TableGroup], tokens: Sequence[int]) -> Scene:
    """A scene whose blocks are handed out in order, from 1 on: 0 is the null block."""
    ids: Iterator[int] = iter(range(1, 1 << 31))
    blocks = tuple(
        tuple(tuple(next(ids) for _ in range(-(-n // g.block_size))) for g in groups)
        for n in tokens
    )
    return Scene(tuple(groups), tuple(tokens), blocks)


@dataclass(frozen=True, slots=True)
class Landing:
    """One token: where it belongs and where the mistake puts it, or looks for it.

    Slots and manager blocks; `wrong_slot` and `wrong_block` are NO_BLOCK where it goes nowhere.
    `owner` is the (request, group) whose block it hits, None for free blocks, the null block and
    memory behind the pool.
    """

    group: int
    request: int
    position: int
    slot: int
    wrong_slot: int
    block: int
    wrong_block: int
    owner: tuple[int, int] | None
    behind_pool: bool

    @property
    def is_harmed(self) -> bool:
        """Whether the token is anywhere but in its own slot."""
        return self.slot != self.wrong_slot

    @property
    def hits_other(self) -> bool:
        """Whether it lies in a block of another request or another group."""
        return self.owner not in {None, (self.request, self.group)}


@dataclass(frozen=True, slots=True)
class Damage:
    """What a mistake does to every token of a scene."""

    title: str
    mistake: str
    landings: tuple[Landing, ...]

    @property
    def harmed(self) -> tuple[Landing, ...]:
        """The tokens that are not in their own slot."""
        return tuple(landing for landing in self.landings if landing.is_harmed)

    @property
    def hits_others(self) -> tuple[Landing, ...]:
        """The tokens that lie in somebody else's block."""
        return tuple(landing for landing in self.landings if landing.hits_other)


def slots_with_manager_size(scene: Scene) -> Damage:
    """The slot kernel divides by the manager block, though the table holds kernel blocks.

    vllm#38831 hands it the kernel sizes; without them accuracy collapses and nothing crashes.
    """
    path = _applied(scene)
    right = _slots(path)
    sizes = [group.block_size for group in scene.groups]
    path.block_sizes = torch.tensor(sizes, dtype=torch.int32, device=path.block_sizes.device)
    mistake = "slot = table[position // manager] * manager + position % manager"
    return _damage(scene, "Slots with the manager size", mistake, right, _slots(path))


def gather_with_one_stride(scene: Scene, stride_of: int = 0) -> Damage:
    """The gather kernel steps from row to row by one group's stride in every group.

    Attention then looks a token up in the row that it finds: `wrong_slot` is where it looks. The
    batch lists the requests backwards: in the tables' own order both sides of the copy would be
    wrong alike, and nothing would show. Where rows overlap, the program that comes last wins.
    """
    widest = max(group.max_kernel_blocks for group in scene.groups)
    path = _applied(scene, _roomy(len(scene.tokens) * widest))
    right = _slots(path)
    path.strides = path.strides[stride_of].repeat(len(scene.groups))
    backwards = range(len(scene.tokens))[::-1]
    path.upload_batch(_whole_batch(scene, backwards))
    path.launch_gather()
    looked_up = np.full_like(right, NO_BLOCK)
    first = 0
    for request, count in enumerate(scene.tokens):
        positions = np.arange(count)
        for g, group in enumerate(scene.groups):
            size = group.kernel_block_size
            blocks = (
                path.tables[g][backwards[request]].cpu().numpy().astype(np.int64)[positions // size]
            )
            looked_up[g, first : first + count] = np.where(
                blocks < 0, NO_BLOCK, blocks * size + positions % size
            )
        first += count
    mistake = f"row i begins at i * stride of group {stride_of}, in every group"
    return _damage(scene, "Gather with one stride", mistake, right, looked_up)


def generator_handed_over_twice(groups: Sequence[TableGroup], tokens: int) -> Damage:
    """The ids of all groups come as a generator: counting reads it, staging finds it empty.

    Row 0 is in use for the second time, and its first owner's blocks went to request 1. Its counts
    grow and its ids stay: request 0 writes into the blocks of request 1. Met in the review of
    vllm#38831.
    """
    scene = filled_scene(groups, (tokens, tokens))
    right = _slots(_applied(scene))
    first_owner = scene.block_ids[1]
    path = _applied(Scene(scene.groups, scene.tokens, (first_owner, first_owner)))
    handed_over = (ids for ids in scene.block_ids[0])
    lengths = [len(ids) for ids in handed_over]
    host = HostTables(scene.groups, len(scene.tokens), scene.num_blocks)
    for ids in zip(handed_over, strict=True):  # nothing is left to be staged
        host.append_many([0], [ids])
    path.upload_writes(host.staged())
    path.launch_apply()
    for g, group in enumerate(scene.groups):
        path.counts[g, 0] = lengths[g] * group.ratio
    mistake = "ids = (row for row in rows): len() of each, then a second loop over ids"
    return _damage(scene, "A generator handed over twice", mistake, right, _slots(path))


def _applied(scene: Scene, allocate: Allocate | None = None) -> FaithfulPath:
    """The scene's rows on the device, and a batch of all its tokens."""
    requests, total = len(scene.tokens), sum(scene.tokens)
    device = triton_mode().torch_device
    path = FaithfulPath(
        scene.groups,
        max_requests=requests,
        max_tokens=max(total, 1),
        parallel=ContextParallel(),
        allocate=allocate or _filled(device),
    )
    host = HostTables(scene.groups, requests, scene.num_blocks)
    host.append_many(range(requests), scene.block_ids)
    path.upload_writes(host.staged())
    path.launch_apply()
    path.upload_batch(_whole_batch(scene, range(requests)))
    return path


def _whole_batch(scene: Scene, order: Sequence[int]) -> Batch:
    """All tokens of all requests, request order[i] in row i."""
    tokens = [scene.tokens[request] for request in order]
    return Batch(
        np.array(order, dtype=np.int32),
        np.cumsum([0, *tokens]).astype(np.int32),
        np.concatenate([np.arange(n, dtype=np.int64) for n in tokens]),
        len(tokens),
    )


def _slots(path: FaithfulPath) -> np.ndarray:
    path.launch_slots()
    return path.slots.cpu().numpy().copy()


def _damage(scene: Scene, title: str, mistake: str, right: np.ndarray, wrong: np.ndarray) -> Damage:
    landings = []
    tokens = [(request, p) for request, n in enumerate(scene.tokens) for p in range(n)]
    for g, group in enumerate(scene.groups):
        for (request, position), slot, found in zip(
            tokens, right[g].tolist(), wrong[g].tolist(), strict=False
        ):
            block = found // group.block_size if found >= 0 else NO_BLOCK
            landings.append(
                Landing(
                    group=g,
                    request=request,
                    position=position,
                    slot=slot,
                    wrong_slot=found,
                    block=slot // group.block_size,
                    wrong_block=block,
                    owner=scene.owners.get(block),
                    behind_pool=block >= scene.num_blocks,
                )
            )
    return Damage(title, mistake, tuple(landings))


def _filled(device: str) -> Callable[[tuple[int, ...], torch.dtype], torch.Tensor]:
    def allocate(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.full(shape, NO_BLOCK, dtype=dtype, device=device)

    return allocate


def _roomy(entries: int) -> Allocate:
    """Tensors at the start of memory large enough for any stride: a wrong one reads NO_BLOCK."""
    fill = _filled(triton_mode().torch_device)

    def allocate(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        needed = torch.Size(shape).numel()
        return fill((max(entries, needed),), dtype)[:needed].view(shape)

    return allocate

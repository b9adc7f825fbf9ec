"""Three deliberate mistakes with real kernels: which token is written to whose block.

Each function runs a scene once as it should be and once wrongly, and reports every token. No slot
is followed into a cache here, so a slot past its end harms nothing; what it would do on a GPU
follows from its place.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from workbench.kernels.block_table.batch import Batch
from workbench.kernels.block_table.faithful import FaithfulPath
from workbench.kernels.block_table.groups import ContextParallel
from workbench.kernels.block_table.host import HostTables
from workbench.kernels.block_table.landings import (
    NO_BLOCK,
    PAST_TABLE,
    Damage,
    Scene,
    damage_of,
)
from workbench.kernels.block_table.path import Allocate
from workbench.kernels.mode import triton_mode


def slots_with_manager_size(scene: Scene) -> Damage:
    """Map slots with the manager block size, though the table holds kernel blocks.

    vllm#38831 passes the kernel sizes. Without them tokens are stored in other blocks of the
    pool, and with high block ids past its end.
    """
    path = _applied(scene)
    right = _slots(path)
    sizes = [group.block_size for group in scene.groups]
    path.block_sizes = torch.tensor(sizes, dtype=torch.int32, device=path.block_sizes.device)
    title = "Slots computed with the manager block size"
    mistake = "slot = table[position // manager] * manager + position % manager"
    needs = "tables of kernel blocks, several per manager block (0.23); 0.33 has manager blocks"
    return damage_of(scene, title, mistake, right, _slots(path), needs=needs)


def gather_with_one_stride(scene: Scene, stride_of: int = 0) -> Damage:
    """Gather with one group's row stride in every group.

    Attention then looks a token up in a wrong row: `wrong_slot` is where it looks. The
    batch lists the requests backwards: in the tables' own order both sides of the copy would be
    wrong in the same way, and nothing would show. Where rows overlap, the program that comes last
    wins. Here the tables are at the start of larger memory, so no foreign memory is read.
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
                blocks < 0, blocks, blocks * size + positions % size
            )
        first += count
    mistake = f"row i begins at i * stride of group {stride_of}, in every group"
    stride = scene.groups[stride_of].max_kernel_blocks
    past = sum(_entries_past_table(scene, g, stride) for g in range(len(scene.groups)))
    title, needs = "One stride used for all groups", "groups with rows of different widths"
    return damage_of(scene, title, mistake, right, looked_up, past, needs)


def _entries_past_table(scene: Scene, group: int, stride: int) -> int:
    """Return how many entries a gather in reverse order reads and writes past a group's table."""
    shape, requests = scene.groups[group], len(scene.tokens)
    end, past = requests * shape.max_kernel_blocks, 0
    for row, ids in enumerate(per_group[group] for per_group in scene.block_ids):
        live = len(ids) * shape.ratio
        for first in (row * stride, (requests - 1 - row) * stride):  # its source, its target
            past += max(0, first + live - max(first, end))
    return past


def generator_consumed_twice(scene: Scene) -> Damage:
    """Pass the ids of all groups as a generator: counting consumes it before staging.

    Row 0 is in use for the second time, and its first owner's blocks went to request 1. Its counts
    grow and its ids stay: request 0 writes into the blocks of request 1. Found in the review of
    vllm#38831. The scene has two requests with the same number of tokens.
    """
    if len(scene.tokens) != 2 or len(set(scene.tokens)) != 1:
        raise ValueError(
            f"Invalid scene of requests of {list(scene.tokens)} tokens. Expected two requests with "
            "the same number of tokens."
        )
    right = _slots(_applied(scene))
    first_owner = scene.block_ids[1]
    path = _applied(replace(scene, block_ids=(first_owner, first_owner)))
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
    title = "A generator consumed twice, with two requests of equal length"
    return damage_of(scene, title, mistake, right, _slots(path))


def _applied(scene: Scene, allocate: Allocate | None = None) -> FaithfulPath:
    """Return a path with the scene's rows applied, and a batch of all its tokens uploaded."""
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
    """Return a batch of all tokens of all requests, request order[i] in row i."""
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


def _filled(device: str) -> Callable[[tuple[int, ...], torch.dtype], torch.Tensor]:
    def allocate(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.full(shape, NO_BLOCK, dtype=dtype, device=device)

    return allocate


def _roomy(entries: int) -> Allocate:
    """Place tensors at the start of memory that no stride leaves, followed by PAST_TABLE."""
    device = triton_mode().torch_device

    def allocate(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        needed = torch.Size(shape).numel()
        room = max(entries, needed)
        memory = torch.full((room,), PAST_TABLE, dtype=dtype, device=device)
        return memory[:needed].fill_(NO_BLOCK).view(shape)

    return allocate

"""Memory with guard words on either side: a kernel that writes past its buffer is detected."""

import torch

from workbench.kernels.block_table.path import Allocate

GUARD_BYTES = 4096
PATTERN = 0x7BADBEEF
GARBAGE = 1_000_000
"""What fresh memory holds: no block id of a test, so using it shows."""


class GuardError(AssertionError):
    """A guard was overwritten: `buffer` is its number in order of allocation, `offset` how many
    entries past the buffer's end the first changed word is, negative before its start.
    """

    def __init__(self, buffer: int, offset: int) -> None:
        super().__init__(f"buffer {buffer} was written {offset:+d} entries outside of its memory")
        self.buffer = buffer
        self.offset = offset


class GuardedMemory:
    """Allocates for `BlockTables(allocate=memory.allocate)`, and checks every fence."""

    def __init__(self, device: str | torch.device, *, garbage: int = GARBAGE) -> None:
        self.device = device
        self.garbage = garbage
        self._buffers: list[tuple[torch.Tensor, int]] = []

    @property
    def allocate(self) -> Allocate:
        """Allocate memory full of garbage, between guard words."""
        return self._allocate

    def rows(self, count: int, columns: int) -> torch.Tensor:
        """Return [count, columns] int32 full of garbage, every row between two fences."""
        guard = GUARD_BYTES // torch.int32.itemsize
        stride = columns + guard
        memory = torch.full(
            (guard + count * stride,), PATTERN, dtype=torch.int32, device=self.device
        )
        inside = memory[guard:].view(count, stride)[:, :columns]
        inside.fill_(self.garbage)
        starts = range(0, count * stride, stride)
        self._buffers += [(memory[start : start + stride + guard], guard) for start in starts]
        return inside

    def check(self) -> None:
        """Raise GuardError for the first fence that is not as it was made."""
        for number, (memory, guard) in enumerate(self._buffers):
            entries = len(memory) - 2 * guard
            before = (memory[:guard] != PATTERN).nonzero()
            after = (memory[guard + entries :] != PATTERN).nonzero()
            if len(before):
                raise GuardError(number, int(before[-1]) - guard)
            if len(after):
                raise GuardError(number, int(after[0]) + 1)

    def _allocate(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        guard = GUARD_BYTES // dtype.itemsize
        entries = torch.Size(shape).numel()
        memory = torch.full((entries + 2 * guard,), PATTERN, dtype=dtype, device=self.device)
        self._buffers.append((memory, guard))
        inside = memory[guard : guard + entries]
        inside.fill_(self.garbage)
        return inside.view(shape)

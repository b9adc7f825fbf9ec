"""One pool of manager blocks for all groups; a block goes to one row of one group at a time."""

from collections import deque
from collections.abc import Iterable

from workbench.core.errors import WorkbenchError

NULL_BLOCK = 0
"""Never allocated: it fills row entries that need no block."""


class PoolIsEmptyError(WorkbenchError):
    """More blocks were requested than are free. needed, free: blocks."""

    def __init__(self, needed: int, free: int) -> None:
        super().__init__(
            "pool_is_empty",
            f"{needed:,} more block{'s' * (needed != 1)} needed, and {free:,} of the pool are "
            "free. Finish a request, or give the pool more memory (kv_cache_memory_bytes).",
        )
        self.needed, self.free = needed, free


class BlockPool:
    """Hands blocks out, lowest first; what comes back is handed out last, as in vLLM."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._free = deque(range(NULL_BLOCK + 1, num_blocks))

    @property
    def free_blocks(self) -> int:
        """Return the number of free blocks."""
        return len(self._free)

    def take(self, count: int) -> tuple[int, ...]:
        """Allocate `count` blocks. Errors: PoolIsEmptyError; nothing is taken then."""
        if count > len(self._free):
            raise PoolIsEmptyError(count, len(self._free))
        return tuple(self._free.popleft() for _ in range(count))

    def give_back(self, blocks: Iterable[int]) -> None:
        """Put blocks back into the pool; null blocks are ignored."""
        # At the end: what was freed last may still be found by its hash, so it is reused last.
        self._free.extend(block for block in blocks if block != NULL_BLOCK)

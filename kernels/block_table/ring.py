"""Staging buffers that a later step cannot overwrite before their copy is done."""

from collections.abc import Callable

import numpy as np
import torch

Wait = Callable[[], None]
Copy = Callable[[torch.Tensor, torch.Tensor], Wait]
"""(target, source) -> a function that returns once the source has been read."""


def copy_in_stream(target: torch.Tensor, source: torch.Tensor) -> Wait:
    """Copy in the current stream of the target's GPU; on a CPU at once."""
    target.copy_(source, non_blocking=True)
    if not target.is_cuda:
        return _done
    # host memory is read after this call returns: the event says when it may be filled again
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(target.device))
    return event.synchronize


class StagingRing:
    """Host buffers used in turn, all copied to their own place in one device buffer, `target`.

    A transfer to a GPU needs pinned memory to run in parallel with the host, and then reads the
    buffer some time after the call: so each slot keeps the event of its own copy, and is given out
    again only afterwards. The order on the device is the stream's.
    """

    def __init__(
        self, target: torch.Tensor, *, slots: int = 3, copy: Copy = copy_in_stream
    ) -> None:
        pinned = target.device.type == "cuda"
        self.target = target
        self._buffers = tuple(
            torch.zeros(target.shape, dtype=target.dtype, pin_memory=pinned) for _ in range(slots)
        )
        self._arrays = tuple(buffer.numpy() for buffer in self._buffers)
        self._waits: list[Wait] = [_done] * slots
        self._copy = copy
        self._slot = 0

    def buffer(self) -> np.ndarray:
        """Return the next slot's memory, free to be filled; waits for its last copy if needed."""
        self._waits[self._slot]()
        self._waits[self._slot] = _done
        return self._arrays[self._slot]

    def send(self, end: int, first: int = 0) -> None:
        """Start copying entries first..end-1 of what `buffer` gave, and go on to the next slot."""
        source = self._buffers[self._slot].narrow(0, first, end - first)
        target = self.target.narrow(0, first, end - first)
        self._waits[self._slot] = self._copy(target, source)
        self._slot = (self._slot + 1) % len(self._buffers)


def _done() -> None:
    """Return at once: there is nothing to wait for."""

"""Staging buffers that a later step cannot overwrite before their copy is done."""

from collections.abc import Callable

import numpy as np
import torch

from workbench.kernels.language import triton

Wait = Callable[[], None]
Copy = Callable[[torch.Tensor, torch.Tensor], Wait]
"""(target, source) -> a function that returns once the source has been read."""
SHARE_BITS = 4
"""A copy is an eighth longer than its contents at most: few lengths are prepared."""


class StreamCopy:
    """Copies one buffer in the current stream of the target's GPU; on a CPU at once."""

    def __init__(self) -> None:
        self._event: torch.cuda.Event | None = None
        self._streams: dict[int, torch.cuda.Stream] = {}

    def __call__(self, target: torch.Tensor, source: torch.Tensor) -> Wait:
        """Start to copy."""
        target.copy_(source, non_blocking=True)
        if not target.is_cuda:
            return _done
        # host memory is read after this call returns: the event says when it may be filled again
        if self._event is None:
            self._event = torch.cuda.Event()
        # asking torch for the stream takes as long as the copy
        number = triton.runtime.driver.active.get_current_stream(target.get_device())
        stream = self._streams.get(number)
        if stream is None:
            stream = self._streams[number] = torch.cuda.current_stream(target.device)
        self._event.record(stream)
        return self._event.synchronize


class StagingRing:
    """Host buffers used in turn, all copied to their own place in one device buffer, `target`.

    A transfer to a GPU needs pinned memory to run in parallel with the host, and then reads the
    buffer some time after the call: so each slot keeps the event of its own copy, and is given out
    again only afterwards. The order on the device is the stream's.
    """

    def __init__(
        self, target: torch.Tensor, *, slots: int = 3, copy: Callable[[], Copy] = StreamCopy
    ) -> None:
        pinned = target.device.type == "cuda"
        self.target = target
        self._buffers = tuple(
            torch.zeros(target.shape, dtype=target.dtype, pin_memory=pinned) for _ in range(slots)
        )
        self._arrays = tuple(buffer.numpy() for buffer in self._buffers)
        self._waits: list[Wait] = [_done] * slots
        self._copies = [copy() for _ in range(slots)]
        self._pieces: dict[tuple[int, int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        self._slot, self._words = 0, target.numel()

    def buffer(self) -> np.ndarray:
        """Return the next slot's memory, free to be filled; waits for its last copy if needed."""
        self._waits[self._slot]()
        self._waits[self._slot] = _done
        return self._arrays[self._slot]

    def send(self, end: int, first: int = 0) -> None:
        """Start copying entries first..end-1 of what `buffer` gave, and go on to the next slot.

        What follows them may be copied, too: nothing reads it.
        """
        slot = self._slot
        # the largest number with the same first bits
        end = min(end | (1 << max(end.bit_length() - SHARE_BITS, 0)) - 1, self._words)
        pieces = self._pieces.get((slot, first, end))
        if pieces is None:
            whole = (self.target, self._buffers[slot])
            target, source = (buffer.narrow(0, first, end - first) for buffer in whole)
            pieces = self._pieces[slot, first, end] = target, source
        self._waits[slot] = self._copies[slot](*pieces)
        self._slot = (slot + 1) % len(self._buffers)


def _done() -> None:
    """Return at once: there is nothing to wait for."""

"""What a launch is given of a batch: tensors of the path itself, or of an engine."""

import torch

from workbench.kernels.launching import ALIGNMENT, Launch


class BatchArguments:
    """The first arguments of a launch, which may differ from batch to batch."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        self._tensors, self._dtype = tensors, tensors[-1].dtype
        self._addresses = [tensor.data_ptr() for tensor in tensors]
        # what Triton compiles a kernel for; of the last one, positions, there are two types
        self.kind = (self._dtype, *[address % ALIGNMENT for address in self._addresses])

    def renewed(self, *tensors: torch.Tensor) -> "BatchArguments":
        """Return the same for other tensors, which an engine has in the same places again."""
        addresses = [tensor.data_ptr() for tensor in tensors]
        if addresses != self._addresses or tensors[-1].dtype != self._dtype:
            return BatchArguments(*tensors)
        self._tensors = tensors
        return self

    def launch(self, launch: Launch, programs: int) -> None:
        """Launch so many programs. launch: of this kind."""
        launch.grid = (programs, 1, 1)
        if not launch.start(launch.place(), self._addresses):
            launch.first(self._tensors, remember=True)

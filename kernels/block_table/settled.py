"""Guarantee that nothing is staged after a step, even after an error."""

from types import TracebackType

from workbench.kernels.block_table.host import HostTables
from workbench.kernels.block_table.path import TablePath


class NothingStagedAfterwards:
    """`with` it around what sends the staged writes: they count then, or after an error not.

    A class, for a generator's context manager takes several times as long.
    """

    def __init__(self, host: HostTables, path: TablePath) -> None:
        self._host, self._path = host, path

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Publish what was staged, or go back to what the device holds."""
        if kind is None:
            self._host.publish()
        else:
            self._host.drop(self._path.manager_row)

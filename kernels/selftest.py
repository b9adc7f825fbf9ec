"""Proof that Triton works here: one small real kernel, compared with numpy.

Importing this module imports neither torch nor triton.
"""

from dataclasses import dataclass

from workbench.kernels.mode import Mode, TritonModeError, triton_mode

# odd sizes: no dimension is a power of two, nor a multiple of the block
ROWS, COLUMNS, PADDED_COLUMNS, BLOCK = 7, 37, 41, 16
PICKED = (6, 0, 3, 3, 5, 1, 0, 6, 2)


@dataclass(frozen=True, slots=True)
class SelfTest:
    """`ok` if the kernel's result was exactly numpy's; `detail` describes it."""

    ok: bool
    mode: Mode
    detail: str


def run_selftest() -> SelfTest:
    """Gather rows with a Triton kernel in the current mode and compare with numpy.

    Never raises: any failure is reported in `detail`.
    """
    try:
        decided = triton_mode()
    except TritonModeError as error:
        return SelfTest(False, "unavailable", str(error))
    if decided.mode == "unavailable":
        return SelfTest(False, decided.mode, decided.reason)
    try:
        fault = _gather_fault(decided.torch_device)
    except Exception as error:  # noqa: BLE001 - a diagnosis reports every failure
        return SelfTest(False, decided.mode, f"{type(error).__name__}: {error}")
    shape = f"{len(PICKED)} rows of {COLUMNS} float32 gathered"
    return SelfTest(fault is None, decided.mode, fault or f"{shape}, equal to numpy")


def _gather_fault(torch_device: str) -> str | None:
    """Launch the kernel on guarded buffers; None, or what differs from numpy."""
    import numpy as np
    import torch

    from workbench.kernels.selftest_kernel import gather_rows_kernel

    values = np.random.default_rng(0).standard_normal((ROWS, PADDED_COLUMNS), dtype=np.float32)
    values[:, COLUMNS:] = np.nan  # a read past the row would carry NaN into the output
    index = np.array(PICKED, dtype=np.int64)
    expected = np.full((len(PICKED) + 1, PADDED_COLUMNS), np.nan, dtype=np.float32)
    output = torch.from_numpy(expected.copy()).to(torch_device)
    expected[:-1, :COLUMNS] = values[index, :COLUMNS]

    source = torch.from_numpy(values).to(torch_device)
    gather_rows_kernel[(len(PICKED),)](
        source,
        torch.from_numpy(index).to(torch_device),
        output,
        COLUMNS,
        source.stride(0),
        output.stride(0),
        BLOCK=BLOCK,
    )
    actual = output.cpu().numpy()
    if np.array_equal(actual, expected, equal_nan=True):
        return None
    wrong = int((~((actual == expected) | (np.isnan(actual) & np.isnan(expected)))).sum())
    return f"{wrong} of {expected.size} elements differ from numpy (untouched guards included)"

"""A Dask cluster for the tests of a file."""

import pytest

from tests.sweeps.local_dask import started


@pytest.fixture(scope="module")
def address():
    """The scheduler's address; two workers. One that a test killed may still be on its way back."""
    pytest.importorskip("distributed", reason="the extra `dask` is not installed")
    with started(n_workers=2, processes=True) as running:
        yield running.scheduler_address

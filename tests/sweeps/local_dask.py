"""A Dask cluster of worker processes on this machine."""

from __future__ import annotations

import os
from contextlib import contextmanager

from tests.sweeps.waiting import ROOT


@contextmanager
def started(**options):
    """A LocalCluster whose workers find the tests, and come back however long that takes.

    Its own rule closes a nanny for good whose worker is missing 15 seconds after it was lost.
    """
    import dask
    import distributed

    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT)
    options = {"threads_per_worker": 1, "dashboard_address": ":0"} | options
    try:
        with (
            dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}),
            distributed.LocalCluster(**options) as running,
        ):
            yield running
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before

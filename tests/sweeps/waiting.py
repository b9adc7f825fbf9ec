"""Waiting on conditions instead of times, and points that end only when a test lets them."""

from __future__ import annotations

import time
from pathlib import Path

from tests.sweeps.sweep_measures import held_points
from workbench.sweeps.kernels.execute import Sweep
from workbench.sweeps.store import Key

MEASURES = "tests.sweeps.sweep_measures"
ROOT = Path(__file__).parents[2]
PATIENCE_S = 300  # reached by what is broken, never by a busy machine


def wait_for(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


def keys(count, device="dask", **more):
    return [Key.of({"number": number, **more}, device, "kernel") for number in range(count)]


def held_keys(store, count):
    """Points that `sweep_measures.held` holds until there is a file `go` next to the store."""
    return keys(count, folder=str(store.path.parent))


def holding(store, lanes, count):
    """A sweep with a point held on every lane: the sweep, and number -> process."""
    sweep = Sweep(store, held_keys(store, count), f"{MEASURES}:held", lanes)
    sweep.start()
    wait_for(lambda: len(held_points(store.path.parent)) == min(count, len(lanes)))
    return sweep, held_points(store.path.parent)

"""What sweeps "measure" in tests: quick, slow, wrong, failing, and deadly points."""

from __future__ import annotations

import os
import signal
import time


def quick(config):
    return {
        "n": 3,
        "median_s": 1e-3 * (1 + config["number"]),
        "correct": True,
        "provenance": {"pid": os.getpid(), "visible": os.environ.get("CUDA_VISIBLE_DEVICES")},
    }


def slow(config):
    began = time.time()
    time.sleep(config.get("seconds", 30))
    found = quick(config)
    return {**found, "provenance": {**found["provenance"], "began": began, "ended": time.time()}}


def sometimes(config):
    """Killed, out of memory, an error, an exit, or a value that is no row; else quick."""
    number = config["number"]
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 2:
        raise MemoryError("asked for everything")
    if number == 3:
        raise RuntimeError("illegal configuration")
    if number == 4:
        os._exit(7)
    if number == 5:
        return {"median_s": 1.0, "provenance": {"mode": "interpreter"}}
    if number == 6:
        return {"no_field": 1}
    return quick(config)

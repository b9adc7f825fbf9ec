"""What sweeps "measure" in tests: quick, slow, wrong, failing, and deadly points."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def quick(config):
    return {
        "n": 3,
        "median_s": 1e-3 * (1 + config["number"]),
        "correct": True,
        "provenance": {"pid": os.getpid(), "visible": os.environ.get("CUDA_VISIBLE_DEVICES")},
    }


def slow(config):
    began = time.monotonic()
    time.sleep(config.get("seconds", 3600))
    found = quick(config)
    when = {"began": began, "ended": time.monotonic()}
    return {**found, "provenance": {**found["provenance"], **when}}


def held(config):
    """Say that it runs, then wait for a file named `go`, which some tests never make."""
    folder = Path(config["folder"])
    (folder / f"{config['number']}.pid").write_text(str(os.getpid()))
    end = time.monotonic() + 3600
    while not (folder / "go").exists() and time.monotonic() < end:
        time.sleep(0.01)
    return quick(config)


def held_points(folder):
    """Number -> process of every point that `held` has begun."""
    files = {int(path.stem): path for path in Path(folder).glob("*.pid")}
    pids = {number: path.read_text() for number, path in files.items()}
    return {number: int(pid) for number, pid in pids.items() if pid}


def sometimes(config):
    """Killed, out of memory, an error, an exit, or a value that is not a row; else quick."""
    number = config["number"]
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 2:
        raise MemoryError("requested everything")
    if number == 3:
        raise RuntimeError("illegal configuration")
    if number == 4:
        os._exit(7)
    if number == 5:
        return {"median_s": 1.0, "provenance": {"mode": "interpreter"}}
    if number == 6:
        return {"no_field": 1}
    if number == 8:
        return {"values": {"error": float("nan")}}
    if number == 9:
        raise RuntimeError("/no/such/\udcff")
    return quick(config)

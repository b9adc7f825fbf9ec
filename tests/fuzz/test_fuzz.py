"""Twenty seconds of `make fuzz`, and its own checks."""

from __future__ import annotations

import json
import socket
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.engine import Tally, search
from tests.fuzz.targets import TARGETS, Target
from workbench.core.errors import ScenarioError

SECONDS = 20


pytestmark = pytest.mark.usefixtures("offline")


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_inputs_that_found_a_fault_once(target):
    tally = Tally()
    for data in target.kept:
        tally.execute(target, data)
    assert tally.executions
    assert tally.faults == {}


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_no_input_raises_anything_but_our_errors(target):
    tally = search(target, SECONDS / len(TARGETS), 0, target.kept)
    assert tally.executions > len(target.kept)
    assert tally.faults == {}


def connect(_data):
    socket.create_connection(("127.0.0.1", 9), timeout=0.1)


def fail_on_digits(data):
    if data.isdigit():
        raise OverflowError
    raise ScenarioError("x", "y" * len(data))


def test_a_planted_fault_is_found_with_its_shortest_input(tmp_path):
    planted = Target("sizes", fail_on_digits, lambda: [b"block_size 16"])
    for first in range(0, 60_000, 1000):  # the busier the machine, the less a second finds
        tally = search(planted, 1, first, [b"1234567", b"block_size 16"])
        [data] = [data for place, data in tally.faults.items() if "Overflow" in place]
        if len(data) < 7:
            break
    assert data.isdigit()
    assert len(data) < 7
    tally.write_faults(planted, tmp_path)
    assert data in {path.read_bytes() for path in (tmp_path / "sizes" / "faults").iterdir()}


def test_99_of_100_executions_take_p99_at_most():
    tally = Tally(Counter({3: 980, 40: 10, 9000: 10}))
    assert tally.p99_ms == 900.0
    tally.add(Tally(Counter({3: 900, 40: 100})))
    assert (tally.executions, tally.p99_ms) == (2000, 4.0)


def test_long_messages_and_connections_are_faults():
    tally = Tally()
    tally.execute(Target("sizes", fail_on_digits, list), b"x" * 5000)
    tally.execute(Target("sizes", connect, list), b"")
    assert len(tally.faults) == 2
    assert any(place.startswith("ForbiddenError") for place in tally.faults)


def test_every_kept_input_is_a_line_of_a_target():
    files = (Path(__file__).parents[1] / "data" / "fuzz").glob("*.json")
    assert {path.stem for path in files} == {target.name for target in TARGETS}
    assert all(json.loads(path.read_text()) for path in files)

"""`run` of a plan can be captured in a CUDA graph: seen at its launches, with no GPU.

With a GPU `test_plan.py` captures and replays a real graph.
"""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from workbench.kernels.mode import COMPILE_VARIABLE, INTERPRET_VARIABLE


@pytest.fixture(scope="module")
def captured():
    others = {name: value for name, value in os.environ.items() if name != INTERPRET_VARIABLE}
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.paged_flex.captured_runs"],
        env={**others, COMPILE_VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def test_a_graph_of_two_layers_holds_all_that_a_run_does(captured):
    assert len(captured) == 6
    for name, graph in captured.items():
        # one launch or two for a layer; of one kind of requests each
        assert graph["launches"] in ({6} if name.startswith("both") else {2, 4}), name
        # what torch computes, allocates or copies would not be in the graph
        assert graph["operations"] == 0, name
        assert graph["again"], name


def test_the_addresses_of_a_graph_are_those_of_tensors_that_live_on(captured):
    for name, graph in captured.items():
        assert graph["addresses"] > 4, name
        assert graph["dangling"] == 0, name

"""`run` of a plan can be captured in a CUDA graph: seen at its launches, with no GPU.

With a GPU `test_plan.py` captures and replays a real graph.
"""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.kernels.compiling import printed_there


@pytest.fixture(scope="module")
def captured():
    return printed_there("-m", "tests.kernels.paged_flex.captured_runs")


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

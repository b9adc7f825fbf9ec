"""Batch sizes with a graph, as `VllmConfig` of the installed releases lists them."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.core.capacity.graph_sizes import capture_sizes, count_graphs, graph_batches


def plan_of(rules, **values):
    model = values.pop("model", "llama-3.1-8b")
    return wb.resolve(model=model, rules=rules, speculative_method="ngram", **values)


@pytest.mark.parametrize(
    ("rules", "sequences", "drafts", "budget", "sizes"),
    [
        ("0.23", 1, 0, 300, (2, 2, 3)),
        ("0.23", 1, 0, 8192, (2, 2, 3)),
        ("0.23", 20, 0, 300, (8, 40, 127)),
        ("0.23", 20, 0, 8192, (8, 40, 127)),
        ("0.23", 256, 0, 300, (38, 300, 5091)),
        ("0.23", 256, 0, 8192, (51, 512, 10503)),
        ("0.23", 1024, 0, 8192, (51, 512, 10503)),
        ("0.33", 1, 0, 300, (2, 2, 3)),
        ("0.33", 1, 0, 8192, (2, 2, 3)),
        ("0.33", 1, 3, 300, (4, 8, 15)),
        ("0.33", 1, 3, 8192, (4, 8, 15)),
        ("0.33", 20, 0, 300, (9, 40, 147)),
        ("0.33", 20, 0, 8192, (9, 40, 147)),
        ("0.33", 20, 3, 300, (23, 160, 1687)),
        ("0.33", 20, 3, 8192, (23, 160, 1687)),
        ("0.33", 256, 0, 300, (38, 300, 5091)),
        ("0.33", 256, 0, 8192, (51, 512, 10503)),
        ("0.33", 256, 3, 300, (38, 300, 5091)),
        ("0.33", 256, 3, 8192, (83, 1024, 35335)),
        ("0.33", 1024, 0, 8192, (83, 1024, 35335)),
        ("0.33", 1024, 3, 8192, (83, 1024, 35335)),
    ],
)
def test_the_sizes_are_those_of_vllm(rules, sequences, drafts, budget, sizes):
    """(count, largest, sum) of cudagraph_capture_sizes: 9.0 in 0.23, 10.0 in 0.33."""
    found = capture_sizes(
        plan_of(
            rules,
            compute_capability="9.0" if rules == "0.23" else "10.0",
            max_num_seqs=sequences,
            num_speculative_tokens=drafts,
            max_num_batched_tokens=budget,
        )
    )
    assert (len(found), found[-1], sum(found)) == sizes


def test_0_23_rounds_sizes_up_to_whole_decoding_requests():
    # adjust_cudagraph_sizes_for_spec_decode
    plan = plan_of("0.23", max_num_seqs=4, num_speculative_tokens=2)
    assert capture_sizes(plan) == (1, 2, 4, 8, 16, 24)
    assert graph_batches(plan) == ((3, 6, 9, 18, 24), (3, 6, 9))
    # up to the largest size that is set, which is not a multiple of 8 here
    plan = plan_of("0.23", max_num_seqs=3, num_speculative_tokens=2)
    assert graph_batches(plan) == ((3, 6, 9), (3, 6, 9))


def test_the_v2_runner_of_0_33_rounds_the_sizes_of_decoding_alone():
    # CudaGraphManager._init_candidates
    given = {"cudagraph_capture_sizes": (8, 1, 6), "num_speculative_tokens": 3}
    assert graph_batches(plan_of("0.33", **given)) == ((1, 6, 8), (4, 8))
    assert graph_batches(plan_of("0.33", v2_model_runner=False, **given)) == ((4, 8), (4, 8))


@pytest.mark.parametrize(
    ("values", "sizes"),
    [
        ({"max_cudagraph_capture_size": 20}, (1, 2, 4, 8, 16)),
        ({"max_cudagraph_capture_size": 20, "max_num_batched_tokens": 12}, (1, 2, 4, 8, 12)),
        ({"cudagraph_capture_sizes": (600, 3, 3)}, (3, 600)),
        ({"cudagraph_capture_sizes": (600, 3), "max_num_batched_tokens": 512}, (3,)),
        ({"max_num_seqs": 5, "performance_mode": "interactivity"}, tuple(range(1, 11))),
        ({"cudagraph_capture_sizes": (8,), "enforce_eager": True}, ()),
        ({"cudagraph_capture_sizes": (8,), "platform": "cpu"}, ()),
    ],
)
@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_sizes_that_are_set_count_as_far_as_a_step_holds_them(rules, values, sizes):
    few = {"max_num_seqs": 8} if "max_num_batched_tokens" in values else {}
    assert capture_sizes(plan_of(rules, **few, **values)) == sizes


@pytest.mark.parametrize(
    ("mode", "model", "mixed", "decodes"),
    [
        (None, "llama-3.1-8b", 4, 3),
        ("FULL_AND_PIECEWISE", "llama-3.1-8b", 4, 3),
        ("NONE", "llama-3.1-8b", 0, 0),
        ("PIECEWISE", "llama-3.1-8b", 4, 0),
        ("FULL_DECODE_ONLY", "llama-3.1-8b", 0, 3),
        ("FULL", "llama-3.1-8b", 4, 0),
        ("FULL", "qwen3.5-4b", 4, 3),
    ],
)
@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_a_mode_says_which_batches_have_graphs(rules, mode, model, mixed, decodes):
    # CudagraphDispatcher.initialize_cudagraph_keys; FULL is FULL_AND_PIECEWISE where some layer
    # cannot be captured in a mixed batch
    plan = plan_of(rules, model=model, max_num_seqs=4, cudagraph_mode=mode)
    assert [len(found) for found in graph_batches(plan)] == [mixed, decodes]


@pytest.mark.parametrize(
    ("rules", "capability", "largest"),
    [("0.23", "10.0", 512), ("0.33", "9.0", 512), ("0.33", "10.0", 1024), ("0.33", "12.0", 512)],
)
def test_data_centre_blackwell_has_graphs_of_larger_batches(rules, capability, largest):
    plan = plan_of(rules, compute_capability=capability, max_num_seqs=1024)
    assert capture_sizes(plan)[-1] == largest


def test_a_step_of_a_decoding_request_has_its_drafts():
    few, many = (plan_of("0.33", max_num_seqs=8, num_speculative_tokens=n) for n in (0, 3))
    assert capture_sizes(few)[-1] == 16
    assert capture_sizes(many)[-1] == 64
    assert count_graphs(many) > count_graphs(few)


@pytest.mark.parametrize("platform", ["rocm", "xpu"])
def test_0_23_counts_no_graphs_elsewhere_than_on_cuda(platform):
    assert count_graphs(plan_of("0.23", platform=platform)) == 0
    assert count_graphs(plan_of("0.33", platform=platform)) > 0

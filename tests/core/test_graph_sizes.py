"""Batch sizes with a graph, as `VllmConfig` of the installed releases lists them."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.core.capacity.graph_sizes import capture_sizes, count_graphs


def plan_of(rules, **values):
    return wb.resolve(model="llama-3.1-8b", rules=rules, speculative_method="ngram", **values)


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
    assert capture_sizes(plan) == (3, 6, 9, 18, 24)


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

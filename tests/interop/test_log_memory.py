"""The lines of a log about memory, against the weights of the model and what the line means."""

import pytest

import workbench as wb
from tests.interop.test_log_messages import LINES
from workbench.core.capacity.memory_estimate import loaded_weights

GIB = 2**30
SERVE = "vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct --max-model-len 32768 -tp 4"
FIELDS = {"model": "qwen3-next-80b-a3b", "max_model_len": 32768, "tensor_parallel": 4}


def line_of(log, name):
    return next(line for line in wb.explain_log(log).lines if line.message == name)


def weights_line(gib, command=SERVE):
    return line_of(f"{command}\nModel loading took {gib:.2f} GiB memory and 9.1 seconds", "weights")


def test_weights_of_a_log_are_compared_with_those_of_the_model():
    [weights] = loaded_weights(wb.resolve(**FIELDS))
    same = weights_line(weights / GIB)
    assert (same.verdict, same.why) == (
        "agrees",
        (f"The log says {weights / GIB:.2f} GiB, the rules give {weights / GIB:.2f} GiB.",),
    )
    near = weights_line(1.02 * weights / GIB)
    assert near.verdict == "agrees"
    assert "Kernels repack and pad weights" in near.why[0]
    other = weights_line(0.5 * weights / GIB)  # a checkpoint in 8 bits
    assert other.verdict == "differs"


def test_weights_of_another_quantization_are_not_compared_with_a_stand_in():
    """RTX PRO 6000, FP8, of a public page; compared with the catalog's plain model."""
    half = weights_line(55.19, "vllm serve other/Qwen3-235B-A22B-Instruct-2507-FP8 -tp 4")
    assert half.verdict == "unsure"
    assert "0.50 of 109.61 GiB of qwen3-235b-a22b-2507" in half.why[0]
    folder = "vllm serve /public/models/GLM-5.2-NVFP4 --quantization modelopt -tp 4"
    report = wb.explain_log(f"{folder}\nModel loading took 106.69 GiB memory and 9.1 seconds")
    assert report.scenario["model"] == "nvidia/GLM-5.2-NVFP4"
    assert not any(note.startswith("Omitted") for note in report.reading.notes)
    other = "vllm serve other/GLM-5.2-NVFP4 --quantization modelopt -tp 4"
    report = wb.explain_log(f"{other}\nModel loading took 106.69 GiB memory and 9.1 seconds")
    assert report.failure is None
    assert any("quantized in another way, or not at all" in note for note in report.reading.notes)


def test_every_stage_and_the_drafter_count():
    stages = loaded_weights(wb.resolve(**FIELDS, pipeline_parallel=5))
    assert len(stages) == 5
    assert stages[0] != stages[1]
    last = weights_line(stages[1] / GIB, f"{SERVE} -pp 5")
    assert last.verdict == "agrees"
    assert "another pipeline stage" in last.why[0]
    mtp = {"num_speculative_tokens": 1, "speculative_method": "mtp"}
    [both] = loaded_weights(wb.resolve(**FIELDS, **mtp))
    assert both > loaded_weights(wb.resolve(**FIELDS))[0]


def test_unknown_weights_are_not_compared():
    plan = wb.resolve(**FIELDS, weights_bytes=0)
    assert loaded_weights(plan) == (0,)
    text = weights_line(3.0, "vllm serve org/unknown").verdict
    assert text == "unsure"


def test_the_summary_names_the_bytes_that_are_left():
    [advice] = line_of(LINES["memory_summary"], "memory_summary").advice
    assert advice == (
        "--kv-cache-memory-bytes 61814666240 takes the rest of the device: 57.57 GiB instead of "
        "46.50. Within --gpu-memory-utilization it would be 40574291354."
    )
    full = LINES["memory_summary"].replace("in use is 46.5", "in use is 57.6")
    [advice] = line_of(full, "memory_summary").advice
    assert advice == "The device has no more memory than the cache already has."
    fields = wb.explain_log(f"{SERVE}\n{full}").scenario
    assert fields["gpu_memory_utilization"] == 0.92
    assert fields["kv_cache_memory_bytes"] == round(57.6 * GIB)


def test_the_summary_of_older_versions_is_in_bytes():
    """0.11: without sizes in GiB; and from a page that lost the backticks."""
    text = LINES["memory_summary"].replace(" (37.79 GiB)", "").replace(" (57.57 GiB)", "")
    text = text.replace("46.5 GiB", "49928994816 bytes").replace("`", "")
    line = line_of(text, "memory_summary")
    assert line.said["device_bytes"] == 61814666240
    assert "57.57 GiB instead of 46.50" in line.advice[0]


@pytest.mark.parametrize(
    ("actual", "words"), [(8.57, "were reserved and not used"), (33.0, ""), (34.0, "more than was")]
)
def test_the_pool_of_graphs_is_set_against_its_reserve(actual, words):
    text = LINES["graph_pool"].replace("8.57", f"{actual:.2f}")
    advice = line_of(text, "graph_pool").advice
    assert (words in advice[0]) if words else not advice


def test_query_dtypes_name_the_device():
    report = wb.explain_log(f"{SERVE}\n{LINES['query_dtypes']}")
    assert report.scenario["compute_capability"] == "10.3"


@pytest.mark.parametrize(("said", "verdict"), [(208, "agrees"), (200, "differs")])
def test_the_block_of_hidden_states_is_compared(said, verdict):
    speculation = '{"method": "extract_hidden_states", "num_speculative_tokens": 1, '
    speculation += (
        '"draft_model_config": {"hf_config": {"eagle_aux_hidden_state_layer_ids": [32]}}}'
    )
    command = (
        f"vllm serve Qwen/Qwen3.8-27B --max-model-len 4096 --speculative-config '{speculation}'"
    )
    text = LINES["hidden_state_block"].replace("200", str(said), 1)
    log = f"vLLM API server version 0.33.0\n{command}\n{text}"
    assert line_of(log, "hidden_state_block").verdict == verdict

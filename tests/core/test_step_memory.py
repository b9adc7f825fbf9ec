"""What a step takes at its peak, and what the first graph of decoding allocates."""

import json

import pytest

import workbench as wb
from tests.recorded import DATA
from workbench.core.arithmetic import GIB
from workbench.core.capacity.graph_sizes import attention_workspace
from workbench.core.capacity.largest_images import kept_bytes, tower_bytes
from workbench.core.capacity.memory_estimate import estimate
from workbench.core.capacity.step_memory import _forward
from workbench.core.versions import V0_33
from workbench.models import catalog_config

MTP = {"num_speculative_tokens": 1, "speculative_method": "mtp"}
DSPARK = {"num_speculative_tokens": 6, "speculative_method": "dspark"}


def test_towers_take_what_those_of_vllm_take():
    for line in (DATA / "tower_peaks.jsonl").read_text("utf-8").splitlines():
        fields = json.loads(line)
        peak, rules, model = (fields.pop(name) for name in ("peak_bytes", "vllm", "model"))
        plan = wb.resolve(model, **fields, rules=rules[:4], device="H100")
        assert tower_bytes(plan) == pytest.approx(peak, rel=0.0002), line


@pytest.mark.parametrize(("model", "numbers"), [("gemma-4-26b-a4b", 18756), ("gemma-4-e2b", 13508)])
def test_a_patch_of_gemma_4_takes_what_was_counted(model, numbers):
    """Two and four images of 576 patches, padded to 630: the same per patch, with 5.12.1 and 5.20.2
    of transformers, whose tower it is, on a CPU."""
    video = wb.resolve(model).model.weights.image.video
    assert video.peaks[0][0] == pytest.approx(numbers, abs=1)
    assert (video.tokens, video.patches) == (32 * 78, 32 * 630)


def test_gemma_4_sees_as_much_at_a_time_as_fits_a_tenth_of_the_device():
    """`_encoder_chunk`: a frame is taken to need 206 MB, so that 12 of 96 fit on an RTX 4090."""
    small, large = (
        tower_bytes(wb.resolve("gemma-4-e2b", device=device, max_num_batched_tokens=8192))
        for device in ("RTX 4090", "B300")
    )
    assert large - small == 2 * 84 * 630 * (13507 - 768 - 768)
    without = {"videos_per_prompt": 0, "max_num_batched_tokens": 2800}
    images = tower_bytes(wb.resolve("gemma-4-e2b", device="B300", **without))
    assert images == pytest.approx(2 * 10 * 2520 * (13507 + (2520 - 630) / 2), rel=1e-4)


@pytest.mark.parametrize("tokens", [0, -1, "many"])
def test_an_image_of_no_tokens_is_not_known(tokens):
    config = {k: v for k, v in catalog_config("gemma-3-4b").items() if not k.startswith("_")}
    plan = wb.resolve({**config, "mm_tokens_per_image": tokens}, device="H100")
    assert tower_bytes(plan) == 0


def test_the_longest_video_is_what_a_start_of_qwen2_5_vl_profiles():
    """A public start of 0.23.0 printed -14.28 GiB: 114,688 tokens of a video took the memory."""
    fields = {"device": "A100-80GB", "gpu_memory_utilization": 0.22, "max_num_seqs": 256}
    plan = wb.resolve("qwen2.5-vl-7b", **fields, max_num_batched_tokens=2048)
    assert estimate(plan).available_bytes / GIB == pytest.approx(-14.28, abs=0.14)


@pytest.mark.parametrize(("tokens", "factor"), [(256 * 1024, 5), (256 * 1024 + 1, 2)])
def test_the_factor_of_gathered_keys_changes_after_256_k_tokens(tokens, factor):
    """VllmConfig.__post_init__ of 0.33; 1,152 bytes of a latent hold 8 keys of the indexer."""
    assert V0_33.gathered_keys(tokens) == 8 * factor * tokens


def test_pixels_stay_with_the_v1_runner():
    """qwen3.5-9b: 65,536 patches of 1,536 numbers; 16,384 tokens of 4,096 stay with both."""
    [old, new] = (
        kept_bytes(wb.resolve("qwen3.5-9b", rules=rules, device="H100"))
        for rules in ("0.23", "0.33")
    )
    assert (old, new) == (2 * (65536 * 1536 + 16384 * 4096), 2 * 16384 * 4096)


@pytest.mark.parametrize(("rules", "copies"), [("0.23", 1), ("0.33", 3.3)])
def test_the_v2_runner_keeps_counts_and_profiles_less_at_first(rules, copies):
    """0.23's profile has no graphs and no probabilities; the model is too small for its layers."""
    plan = wb.resolve("qwen3-0.6b", rules=rules, device="H100", max_num_batched_tokens=1024)
    found, logits = estimate(plan), 1024 * 151936
    assert found.activation_bytes == pytest.approx(logits * (2 + 4 * copies), abs=1)
    assert found.other_bytes == pytest.approx(0.25 * GIB + logits * 33 / 8, abs=1)
    assert bool(found.cuda_graph_bytes) == (rules == "0.33")


@pytest.mark.parametrize(
    ("rules", "fields", "is_kept"),
    [("0.23", {}, True), ("0.33", {}, False), ("0.33", MTP, True)],
)
def test_streams_of_deepseek_v4_are_kept_for_a_drafter(rules, fields, is_kept):
    """`_mtp_hidden_buffer`: 4 streams of 4,096 numbers for every token of a step."""
    fields = {**fields, "rules": rules, "device": "H200", "tensor_parallel": 4}
    plans = (
        wb.resolve("deepseek-v4-flash", **fields, max_num_batched_tokens=tokens)
        for tokens in (8192, 4096)
    )
    large, small = (estimate(plan).weights_bytes for plan in plans)
    assert large - small == is_kept * 4096 * 4 * 4096 * 2


def test_flashinfer_allocates_its_workspace_with_the_first_graph_of_decoding():
    fields = {"device": "H100", "backend": "FLASHINFER"}
    plans = [
        wb.resolve("qwen3.5-4b", rules=rules, **fields, **more)
        for rules, more in (
            ("0.23", {}),
            ("0.23", MTP),
            ("0.33", MTP),
            ("0.23", {"enforce_eager": True}),
        )
    ]
    assert [attention_workspace(plan) >> 20 for plan in plans] == [394, 0, 394, 0]
    invariant = wb.resolve("qwen3-0.6b", rules="0.33", **fields, batch_invariant=True)
    assert attention_workspace(invariant) >> 20 == 2048


def test_the_host_takes_part_of_one_memory():
    spark, card = (
        wb.resolve("qwen3-0.6b", device=device).memory() for device in ("DGX Spark", "RTX 5090")
    )
    reasons = [{one.reason for one in answer.doubts} for answer in (spark, card)]
    assert ["the host's processes, in one memory" in one for one in reasons] == [True, False]


@pytest.mark.parametrize(("drafter", "streams"), [({}, 2), (MTP, 2), (DSPARK, 3)])
def test_streams_between_layers_are_written_anew(drafter, streams):
    """Those of DeepSeek-V4 have 16,384 numbers of a token, what a layer takes 4,096.

    DSpark reads the mean of some, which are alive until the last layer: `aux_recon`.
    """
    fields = {"device": "H200", "rules": "0.33", "max_num_batched_tokens": 8192, **drafter}
    plan = wb.resolve("deepseek-v4-flash-0731", tensor_parallel=2, **fields)
    numbers = streams * 16384 + 2 * 4096
    assert _forward(plan) == int(1.2 * 8192 * numbers * 2)

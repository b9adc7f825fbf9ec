"""Inkling, Step5, Dots3Note, Pangu, Voxtral: what files say of caches alongside the attention."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import workbench as wb
from tests.models.configs import llama
from workbench.core.errors import ConfigError, Refused
from workbench.models import read_model

CONFIGS = json.loads((Path(__file__).parents[2] / "tools" / "coverage_configs.json").read_text())
WRITTEN = CONFIGS["written"]
INKLING, STEP5 = WRITTEN["InklingForCausalLM"], WRITTEN["Step5ForCausalLM"]
DOTS, PANGU = WRITTEN["Dots3NoteForCausalLM"], WRITTEN["PanguProMoEV2ForCausalLM"]
DRAFTS = {"speculative_method": "mtp", "num_speculative_tokens": 6}


def plan(config, capability="9.0", **more):
    return wb.resolve(model=config, rules="0.33", compute_capability=capability, **more)


@pytest.mark.parametrize(
    ("config", "more", "field", "text"),
    [
        (INKLING, {"tensor_parallel": 16}, "tensor_parallel", "tp_size <= num_kv_heads (8)"),
        (INKLING, {"dtype": "float16"}, "dtype", "supports bfloat16 only"),
        (STEP5, {"capability": "8.0"}, "compute_capability", "requires SM90, SM100 or SM103"),
        # A page of one KV head has 12 rows of 1,024 bytes: 7 tokens and 6 drafts need 13.
        (STEP5, {"tensor_parallel": 4, **DRAFTS}, "block_size", "needs 13 rows of 1024 bytes"),
    ],
    ids=["ranks", "dtype", "device", "ring"],
)
def test_what_the_caches_need_is_checked(config, more, field, text):
    with pytest.raises(Refused) as caught:
        plan(config, **more)
    assert (caught.value.code, caught.value.field) == ("side_cache_refused", field)
    assert text in caught.value.vllm_text


def test_a_larger_block_has_place_for_the_drafts():
    found = plan(STEP5, tensor_parallel=4, block_size=32, **DRAFTS)
    assert found.errors == ()


@pytest.mark.parametrize("block_size", [None, 32, 64])
def test_the_ring_of_step5_is_one_head_that_fills_a_page_of_the_attention(block_size):
    found = plan(STEP5, block_size=block_size)
    specs = [spec for group in found.built_cache().groups for spec in group.layer_specs]
    (ring,) = {spec for spec in specs if spec.kind == "CircularBufferSpec"}
    assert (ring.num_kv_heads, ring.block_size) == (1, found.block_size)
    assert ring.page_size_bytes == found.attention_page_size_bytes
    assert ring.head_size * ring.block_size * 2 == ring.page_size_bytes
    assert (ring.stride_bytes, ring.is_found_again) == (1024, False)


def test_what_chooses_the_tokens_of_step5_is_its_backend():
    assert plan(STEP5).backend == "STEP5_DSA"
    off = {**STEP5, "sparse_config": {**STEP5["sparse_config"], "enabled": False}}
    assert plan(off).backend == "FLASH_ATTN"


def test_every_page_of_inklings_convolutions_is_a_power_of_two():
    found = plan(INKLING)
    pages = {spec.page_size_bytes for group in found.built_cache().groups for spec in [group.spec]}
    assert pages == {131072}
    assert found.built_cache().groups[0].spec.companion == "INKLING_SCONV_SWA"


def test_step5_without_its_section_names_it():
    with pytest.raises(ConfigError, match="sparse_config is missing"):
        read_model({key: STEP5[key] for key in STEP5 if key != "sparse_config"}, "x")


def test_mtp_layers_of_dots_slide_unless_a_list_says_otherwise():
    ordinary = read_model(DOTS, "x").mtp
    listed = read_model({**DOTS, "mtp_layer_types": ["full_attention"]}, "x").mtp
    assert ordinary.layers[0].cache is not None
    assert listed.layers[0].cache is None
    with pytest.raises(ConfigError, match="2 for 1 layers"):
        read_model({**DOTS, "mtp_layer_types": ["full_attention"] * 2}, "x")


@pytest.mark.parametrize(("sinks", "kind"), [(128, "SinkFullAttentionSpec"), (0, None)])
def test_sinks_have_a_class_of_their_own_and_are_said(sinks, kind):
    model = {**PANGU, "param_sink_number": sinks}
    found = plan(model)
    assert found.built_cache().groups[0].kind == (kind or "FullAttentionSpec")
    assert any("static sinks" in note for note in found.model.notes) == bool(sinks)


VOXTRAL = {
    "model_type": "voxtral_realtime",
    "architectures": ["VoxtralRealtimeForConditionalGeneration"],
    "downsample_factor": 4,
    "audio_config": {
        "num_hidden_layers": 2,
        "num_attention_heads": 32,
        "head_dim": 64,
        "sliding_window": 750,
    },
    "text_config": llama(num_hidden_layers=2, num_key_value_heads=8, sliding_window=8192),
}


@pytest.mark.parametrize(("rules", "window"), [("0.23", 750), ("0.33", 189)])
def test_an_encoder_keeps_four_vectors_of_sound_for_a_token(rules, window):
    """As vLLM does: 0.33 counts the window in tokens, and 0.23 in vectors."""
    plan = wb.resolve(model=VOXTRAL, rules=rules, kv_cache_memory_bytes=2**30)
    sound = next(one for one in plan.cache.groups if "whisper" in one.layers[0]).spec
    assert (sound.window_tokens, sound.num_kv_heads) == (window, 4 * 32)
    assert sound.page_size_bytes == 16 * 4 * 32 * 2 * 64 * 2


def test_pipeline_stages_have_a_part_of_the_encoder():
    """vLLM 0.33 built 16 of 32 layers of the encoder, and 13 of 26 of the decoder, for each."""
    plan = wb.resolve(model=VOXTRAL, pipeline_parallel=2, rules="0.33", kv_cache_memory_bytes=2**30)
    for stage in plan.cache.stages:
        assert [len(group.layers) for group in stage.groups] == [1, 1]


def test_an_encoder_with_caches_runs_with_few_backends():
    refused = wb.resolve(model=VOXTRAL, rules="0.33", device="B200")
    assert [one.code for one in refused.problems] == ["backend_of_class"]
    taken = wb.resolve(model=VOXTRAL, rules="0.33", device="B200", backend="TRITON_ATTN")
    assert not taken.problems

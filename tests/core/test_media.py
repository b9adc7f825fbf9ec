"""Limits on images, videos and sound, and what towers then take."""

from __future__ import annotations

import pytest

from workbench.core.capacity.largest_images import count_images, tower_bytes
from workbench.core.media import keeps_towers
from workbench.interop.commands.command_line import read_command
from workbench.models.load import labelled_config
from workbench.scenario.resolution import resolve


def _plan(model, rules="0.33", **fields):
    return resolve(model=model, device="H100", rules=rules, **fields)


@pytest.mark.parametrize(
    ("fields", "backend"),
    [
        ({}, "TRITON_FLASH_ATTN"),
        ({"images_per_prompt": 1}, "TRITON_FLASH_ATTN"),
        ({"images_per_prompt": 0}, "FLASH_ATTN"),
        ({"language_model_only": True}, "FLASH_ATTN"),
    ],
)
def test_without_images_layers_read_no_prefix(fields, backend):
    assert _plan("gemma-3-12b", **fields).backend == backend
    assert _plan("gemma-3-12b", "0.23", **fields).backend == "FLASH_ATTN"


def test_every_kind_that_is_taken_counts():
    off = {"images_per_prompt": 0, "videos_per_prompt": 0}
    assert _plan("gemma-4-31b", images_per_prompt=0).backend == "TRITON_FLASH_ATTN"
    assert _plan("gemma-4-31b", **off).backend == "FLASH_ATTN"
    hears = {**labelled_config("gemma-4-31b")[0], "audio_config": {"model_type": "gemma4_audio"}}
    assert _plan(hears, **off).backend == "TRITON_FLASH_ATTN"
    assert _plan(hears, **off, audios_per_prompt=0).backend == "FLASH_ATTN"


def test_the_largest_item_raises_the_default_where_it_may_come():
    small = {"device": "RTX 4090", "rules": "0.33", "model": "gemma-4-26b-a4b"}
    text = resolve(**small, language_model_only=True)
    assert resolve(**small).max_num_batched_tokens == 2496
    assert text.max_num_batched_tokens == 2048


def test_towers_are_built_for_one_kind_of_theirs():
    assert keeps_towers(_plan("qwen3-vl-8b", images_per_prompt=0))
    assert not keeps_towers(_plan("qwen3-vl-8b", images_per_prompt=0, videos_per_prompt=0))
    assert keeps_towers(_plan("qwen3-vl-8b", images_per_prompt=2))


def test_the_profile_has_what_may_come():
    whole = _plan("qwen2.5-vl-7b", max_model_len=128_000)
    images = _plan("qwen2.5-vl-7b", max_model_len=128_000, videos_per_prompt=0)
    assert tower_bytes(images) < tower_bytes(whole)
    assert count_images(images) >= count_images(whole) == 1
    few = _plan("qwen3-vl-8b", max_num_seqs=1, videos_per_prompt=0, images_per_prompt=1)
    assert count_images(few) == 1
    assert count_images(_plan("qwen3-vl-8b", images_per_prompt=0, videos_per_prompt=0)) == 0


def test_whole_towers_are_on_every_rank():
    shared, whole = (
        _plan("qwen2.5-vl-72b", tensor_parallel=8, mm_encoder_tp_mode=mode)
        for mode in ("weights", "data")
    )
    assert whole.estimates[0].weights_bytes > shared.estimates[0].weights_bytes
    divided = _plan("gemma-3-12b", tensor_parallel=2, mm_encoder_tp_mode="data")
    assert divided.estimates == _plan("gemma-3-12b", tensor_parallel=2).estimates


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ("--limit-mm-per-prompt.video 0", {"videos_per_prompt": 0}),
        (
            '--limit-mm-per-prompt \'{"image": 2, "audio": {"count": 0}}\'',
            {"images_per_prompt": 2, "audios_per_prompt": 0},
        ),
    ],
)
def test_commands_limit_them(words, fields):
    found = read_command(f"vllm serve Qwen/Qwen3-VL-8B-Instruct {words}", "0.33")
    assert {name: found.fields[name] for name in fields} == fields
    assert not found.not_modelled


def test_a_size_of_images_is_not_modelled():
    limits = '{"image": {"count": 2, "width": 512, "height": 512}}'
    found = read_command(f"vllm serve Qwen/Qwen3-VL-8B-Instruct --limit-mm-per-prompt '{limits}'")
    assert "images_per_prompt" not in found.fields
    assert "towers" in found.not_modelled[0]


def test_a_drafter_is_divided_next_to_whole_towers():
    drafts = {"speculative_method": "mtp", "num_speculative_tokens": 1, "tensor_parallel": 2}
    plan = _plan("qwen3.5-4b", **drafts, mm_encoder_tp_mode="data")
    assert (
        plan.estimates[0].weights_bytes > _plan("qwen3.5-4b", **drafts).estimates[0].weights_bytes
    )

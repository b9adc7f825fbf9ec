import pytest

import workbench as wb
from workbench.core.errors import ScenarioError
from workbench.core.sizes import parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", None),
        ("20 GiB", 20 * 2**30),
        ("80GB", 80 * 10**9),
        ("1.5 gib", 3 * 2**29),
        ("21,474,836,480", 21_474_836_480),
        ("512 MiB", 512 * 2**20),
        ("2162688 B", 2_162_688),
        ("594 GB / 8", 594 * 10**9 // 8),
        ("1.1TB/16", 11 * 10**11 // 16),
    ],
)
def test_sizes_as_people_write_them(text, size):
    assert parse_bytes(text, "kv_cache_memory_bytes") == size


@pytest.mark.parametrize("text", ["80", "20.5", "0"])
def test_a_missing_unit_is_an_error_and_not_guessed(text):
    with pytest.raises(ScenarioError, match="the unit is missing") as caught:
        parse_bytes(text, "kv_cache_memory_bytes")
    assert caught.value.field == "kv_cache_memory_bytes"


@pytest.mark.parametrize(
    "text",
    [
        *("-1 GiB", "20 GX", "lots", "1e3 GB", "NaN", "1,5 GiB", "1,0000 GB"),
        *("8 GB / 0", "8 GB / x", "/ 8"),
    ],
)
def test_an_invalid_size_is_refused(text):
    with pytest.raises(ScenarioError, match="20 GiB or 80 GB"):
        parse_bytes(text, "kv_cache_memory_bytes")


@pytest.mark.parametrize(
    ("text", "near"),
    [("20G", "20 GiB or 20 GB"), ("1.5m", "1.5 MiB or 1.5 MB"), ("20 GX", "20 GiB or 20 GB")],
)
def test_half_a_unit_is_answered_with_the_nearest_ones(text, near):
    with pytest.raises(ScenarioError, match=f"Nearest: {near}"):
        parse_bytes(text, "kv_cache_memory_bytes")


def test_more_digits_than_any_memory_is_refused_too():
    with pytest.raises(ScenarioError, match="unrealistically large"):
        parse_bytes("9" * 400 + " GiB", "weights_bytes")


def test_parameters_in_bytes_read_units_as_fields_do():
    plan = wb.resolve(model="qwen3-8b", enable_prefix_caching=True)
    found = plan.offload(cpu_bytes_to_use="64 GiB")
    assert found == plan.offload(cpu_bytes_to_use=64 * 2**30)
    assert found.request.cpu_bytes_to_use == 64 * 2**30
    rates = [
        found.break_even_tokens(prefill_tokens_per_s=10_000, link_bytes_per_s=rate)
        for rate in ("1 GB", 10**9)
    ]
    assert rates[0] == rates[1]
    flex = wb.resolve(model="llama-3.1-8b", backend="FLEX_ATTENTION", flex_attn_kv_block_size=64)
    assert flex.flex("99 KiB").tiles == flex.flex(99 * 1024).tiles != flex.flex("227 KiB").tiles


def test_a_parameter_in_bytes_without_its_unit_is_refused():
    with pytest.raises(ScenarioError, match="Expected for example 64 GiB") as caught:
        wb.resolve(model="qwen3-8b").offload(cpu_bytes_to_use="64")
    assert caught.value.field == "cpu_bytes_to_use"

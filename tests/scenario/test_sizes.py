import pytest

from workbench.core.errors import ScenarioError
from workbench.scenario.sizes import parse_bytes


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

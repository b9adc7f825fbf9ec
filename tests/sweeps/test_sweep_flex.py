"""Kernel sweeps: what is skipped before a launch, the flow in the interpreter, and who wins."""

from __future__ import annotations

import pytest

from workbench.kernels.bench.machine import device_name
from workbench.kernels.mode import triton_mode
from workbench.sweeps.kernels.execute import Sweep
from workbench.sweeps.kernels.flex import (
    SMALL_BATCHES,
    candidates,
    kernel_hash,
    measure,
    settings_of,
)
from workbench.sweeps.kernels.kernel_session import KERNELS
from workbench.sweeps.kernels.winners import keys, winner, winners
from workbench.sweeps.store import Key, ResultStore, Row

SMALL = {"head_dim": 16, "group": 2, "dtype": "float32", "block_size": 16}
FEW = {
    "block_m": (16, 24),
    "block_n": (16, 32),
    "num_warps": (4,),
    "decode_n": (16,),
    "split_tokens": (0, 16, 24),
}
NAMES = [bucket.name for bucket in SMALL_BATCHES]


def test_illegal_configurations_are_skipped_and_counted():
    found = candidates(None, axes=FEW, model=SMALL)
    assert found.illegal == {"block_m": 6, "split_tokens": 3}
    assert len(found.configs) == 3
    assert all(settings_of(config).prefill.block_m == 16 for config in found.configs)


def test_bitwise_has_one_tile_for_every_token():
    found = candidates(None, axes=FEW, bitwise=True, model=SMALL)
    for config in found.configs:
        settings = settings_of(config)
        assert settings.prefill == settings.decode
        assert not settings.depends_on_chunks
    assert "split_tokens" in found.illegal


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("block_m", [(16,), pytest.param((16, 128), marks=pytest.mark.thorough)])
def test_what_spills_or_is_too_large_is_skipped_by_compiling(block_m):
    axes = {
        "block_m": block_m,
        "block_n": (32, 128, 256),
        "num_warps": (4,),
        "decode_n": (32,),
        "split_tokens": (0,),
    }
    found = candidates("sm_80", axes=axes)
    sizes = len(axes["block_m"]) * len(axes["block_n"])
    assert 0 < len(found.configs) < sizes
    assert sum(found.unfit.values()) == sizes - len(found.configs)
    # 128 x 128 spills
    assert set(found.unfit) == {"shared memory", *["spills registers"] * (128 in block_m)}
    assert all(config["shared_bytes"] > 0 for config in found.configs)
    kept = {(config["block_m"], config["block_n"]) for config in found.configs}
    assert (16, 32) in kept
    assert (max(block_m), 256) not in kept


@pytest.mark.skipif(triton_mode().mode != "interpreter", reason="this is the flow without a GPU")
@pytest.mark.thorough
def test_the_flow_in_the_interpreter_has_verdicts_and_no_times(tmp_path):
    found = candidates(None, axes=FEW, model=SMALL)
    wanted = keys("flex", found.configs[:2], SMALL_BATCHES, device_name(), kernel_hash())
    with ResultStore(tmp_path / "results.db") as store:
        progress = Sweep(store, wanted, KERNELS["flex"].measure).run()
        assert (progress.measured, progress.failed) == (4, 0)
        for row in store.rows():
            assert row.correct
            assert row.bitwise
            assert row.median_s is None
            assert row.provenance["mode"] == "interpreter"
            assert row.key.kernel_hash == row.provenance["source"] == kernel_hash()
        assert winner(store.rows(), NAMES) is None


@pytest.mark.skipif(triton_mode().mode != "interpreter", reason="plants a mistake")
def test_a_wrong_result_is_a_row_without_a_time(monkeypatch):
    from workbench.kernels.paged_flex import reference

    monkeypatch.setattr(reference.Agreement, "ok", property(lambda self: False))
    config = {**candidates(None, axes=FEW, model=SMALL).configs[0], "bucket": "x"}
    row = measure({**config, "requests": 1, "tokens": 20, "queries": 20})
    assert row["status"] == "wrong"
    assert "median_s" not in row
    assert "allowed" in row["message"]


def rows(times, **changes):
    """times: configuration -> seconds on each bucket."""
    return [
        Row(
            Key.of({"block_m": size, "shared_bytes": size, "bucket": bucket}, "H100", "kernel"),
            **{"n": 9, "median_s": seconds, "correct": True, "bitwise": True, **changes},
        )
        for size, found in times.items()
        for bucket, seconds in zip(("a", "b"), found, strict=True)
    ]


def test_the_winner_is_best_over_all_buckets_not_on_one():
    found = winner(rows({16: (1.0, 9.0), 32: (2.0, 3.0), 64: (8.0, 1.0)}), ["a", "b"])
    assert found.config["block_m"] == 32
    assert found.seconds == pytest.approx(6**0.5)


@pytest.mark.parametrize(("slower", "chosen"), [(1.019, 16), (1.021, 64)])
def test_within_two_percent_less_shared_memory_wins(slower, chosen):
    found = winner(rows({16: (slower, slower), 64: (1.0, 1.0)}), ["a", "b"])
    assert found.config["block_m"] == chosen
    assert found.ties == (chosen == 16)


def test_what_is_wrong_or_not_measured_everywhere_never_wins():
    fast_but_wrong = [
        Row(Key.of({"block_m": 16, "bucket": "a"}, "H100", "kernel"), "wrong", correct=False),
        Row(
            Key.of({"block_m": 16, "bucket": "b"}, "H100", "kernel"),
            n=9,
            median_s=1e-9,
            correct=True,
        ),
    ]
    only_one = rows({128: (1e-9, 1e-9)})[:1]
    found = winner([*fast_but_wrong, *only_one, *rows({32: (1, 1)})], ["a", "b"])
    assert found.config["block_m"] == 32
    assert winner(fast_but_wrong, ["a", "b"]) is None


def test_bitwise_has_one_winner_for_all_buckets():
    times = {16: (1.0, 9.0), 64: (8.0, 1.0)}
    fast = winners(rows(times), ["a", "b"])
    assert {bucket: one.config["block_m"] for bucket, one in fast.items()} == {"a": 16, "b": 64}
    same = winners(rows(times), ["a", "b"], bitwise=True)
    assert same["a"] == same["b"]
    assert winners(rows(times, bitwise=False), ["a", "b"], bitwise=True) == {}

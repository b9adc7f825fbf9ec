"""Launches in the shape of a plan: right, unpoisoned, refused where they must be; and speeds."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tests.kernels.paged_flex import mods
from workbench.core.errors import ScenarioError
from workbench.core.flex.batch import KINDS
from workbench.core.flex.lab import ENGINE, KERNELS, OURS_BITWISE, OURS_FAST, FlexSpeed
from workbench.core.tables.batch_grammar import parse_batch
from workbench.kernels.mode import triton_mode
from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.layout import lay_out, random_request
from workbench.kernels.paged_flex.plan import AttentionPlan
from workbench.labs.flex.inputs import (
    kernel_errors_as_scenario_errors,
    machine_for,
    shape_of,
    tile_sizes,
)
from workbench.labs.flex.launch import launch_flex, seen_pairs
from workbench.labs.flex.mistakes import FLEX_MISTAKES, make_flex_mistake
from workbench.labs.flex.session import FlexSession
from workbench.labs.jobs import Job, Stopped
from workbench.scenario.resolution import resolve

INTERPRETED = triton_mode().mode == "interpreter"
interpreted = pytest.mark.skipif(not INTERPRETED, reason="of Triton's interpreter only")
SMALL = {"backend": "FLEX_ATTENTION", "tensor_parallel": 8}
LLAMA = resolve(model="llama-3.1-8b", **SMALL)
BAMBA = resolve(model="bamba-9b", **SMALL)
BATCH = parse_batch("q9_q3s70")


def test_the_shape_is_that_of_one_rank():
    shape = shape_of(LLAMA)
    assert (shape.heads, shape.kv_heads, shape.head_size) == (4, 1, 128)
    assert (shape.page_tokens, shape.block_size, shape.dtype) == (16, 16, "bfloat16")
    assert str(shape).startswith("4 query heads over 1 KV head, head size 128, ")
    hybrid = shape_of(BAMBA)
    assert hybrid.page_tokens == BAMBA.block_size
    assert hybrid.block_size == BAMBA.kernel_block_size


def test_the_shape_is_that_of_a_layer_that_the_model_has():
    """Gemma 4 has fewer and wider heads in its full layers: neither shape is a mixture of both."""
    shape = shape_of(resolve(model="gemma-4-26b-a4b", backend="FLEX_ATTENTION"))
    assert (shape.kv_heads, shape.head_size) == (8, 256)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, ("sliding window", 1024)),
        ({"mask": "causal"}, ("causal", 1024)),
        ({"mask_tokens": 20}, ("sliding window", 20)),
    ],
)
def test_a_session_begins_with_the_mask_of_the_layers(given, found):
    plan = resolve(model="gemma-3-12b", backend="FLEX_ATTENTION")
    session = FlexSession(plan, **given)
    assert (session.mask, session.mask_tokens) == found


@pytest.mark.parametrize("path", [OURS_FAST, OURS_BITWISE])
@pytest.mark.parametrize("plan", [LLAMA, BAMBA], ids=["page of 16", "hybrid page"])
def test_our_kernel_is_exact_and_reads_nothing_it_may_not(plan, path):
    run = launch_flex(plan, BATCH, kernel=path)
    assert run.exact_enough, run
    assert 0 < run.max_error < 0.02
    assert run.unread_stays_unread
    assert (run.requests, run.tokens, run.cached_tokens) == (2, 12, 79)
    assert run.elements == 12 * run.shape.heads * 128
    assert (run.speed is None) == INTERPRETED


@pytest.mark.thorough
@interpreted
def test_the_engines_path_is_exact_and_multiplies_every_slot():
    run = launch_flex(LLAMA, BATCH, kernel=ENGINE, dtype="float32")
    assert run.place.mode == "eager"
    assert run.exact_enough
    assert run.poisoned == run.elements


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_every_mask_in_both_paths(kind):
    for path in (OURS_FAST, ENGINE):
        wanted = {"kernel": path, "mask": kind, "mask_tokens": 6, "dtype": "float32"}
        assert launch_flex(LLAMA, BATCH, **wanted).exact_enough, path


def test_a_wrong_kernel_is_called_wrong(monkeypatch):
    real = AttentionPlan.run

    def shifted(*arguments):
        return real(*arguments).mul_(1.1)

    monkeypatch.setattr(AttentionPlan, "run", shifted)
    assert not launch_flex(LLAMA, BATCH).exact_enough


def test_a_kernel_that_reads_too_much_is_caught(monkeypatch):
    real = AttentionPlan.run

    def reads_all(plan, query, cache, *arguments):
        out = real(plan, query, cache, *arguments)
        return out.add_(cache.sum() * 0)

    monkeypatch.setattr(AttentionPlan, "run", reads_all)
    run = launch_flex(LLAMA, BATCH)
    assert run.exact_enough
    assert run.poisoned == run.elements


@interpreted
@pytest.mark.parametrize("kernel", KERNELS)
def test_bfloat16_is_computed_here_and_the_result_says_how(kernel):
    run = launch_flex(LLAMA, BATCH, kernel=kernel)
    assert run.shape.dtype == "bfloat16"
    assert run.exact_enough
    assert run.poisoned == (run.elements if kernel == ENGINE else 0)
    assert ("float32" in run.place.note) == (kernel != ENGINE)
    assert machine_for("float32", "as planned").note == ""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tile": "8 x 64"}, "power of two in 16.*value: 16"),
        ({"tile": "64 x 48"}, "block_n 48.*value: 32"),
        ({"tile": "large"}, "Invalid tile 'large'. Expected queries x keys"),
        (
            {"kernel": ENGINE, "tile": "32 x 16"},
            "32 queries is larger than the mask block of 16",
        ),
        ({"kernel": ENGINE, "tile": "16 x 12"}, "does not divide.*Nearest valid: 8"),
        ({"kernel": ENGINE, "tile": "0 x 16"}, "does not divide"),
        ({"mask": "spiral"}, "spiral"),
        ({"mask": "chunked", "mask_tokens": 0}, "from 1 to"),
        ({"mask": "sliding window", "mask_tokens": 2**31}, "Nearest valid value: 2147483646"),
        ({"mask": "prefix-LM", "mask_tokens": 2**33}, "Nearest valid value: 2147483646"),
        ({"dtype": "float17"}, "float17"),
    ],
)
def test_bad_input_is_refused_with_what_is_allowed(given, message):
    with pytest.raises(ScenarioError, match=f"(?s){message}"):
        launch_flex(LLAMA, BATCH, **given)


def test_a_hybrid_block_stops_the_engines_path_and_not_ours():
    with pytest.raises(ScenarioError, match="power of two"):
        launch_flex(BAMBA, BATCH, kernel=ENGINE)


@interpreted
@pytest.mark.parametrize(
    ("batch", "said"), [("q8ks8k", "float64 reference"), ("64q1s30000", "interpreter")]
)
def test_what_would_take_minutes_is_refused_at_once(batch, said):
    with pytest.raises(ScenarioError, match=said) as caught:
        launch_flex(LLAMA, parse_batch(batch))
    assert caught.value.field == "batch"


def test_explicit_tiles():
    assert tile_sizes(" ") is None
    assert {tile_sizes(t) for t in ("64x32", "64 X 32", "64 32", " 64,32 ")} == {(64, 32)}


def test_a_stop_is_heard():
    job = Job()
    job.stop()
    with pytest.raises(Stopped):
        launch_flex(LLAMA, BATCH, job=job)


def test_a_stop_is_checked_between_two_heads(monkeypatch):
    plan, job, real = resolve(model="llama-3.1-8b"), Job(), AttentionPlan.run
    launched = threading.Event()

    def ringing(*arguments):
        launched.set()
        job.stop()
        return real(*arguments)

    monkeypatch.setattr(AttentionPlan, "run", ringing)
    with pytest.raises(Stopped):
        launch_flex(plan, BATCH, job=job)
    assert launched.is_set()


@interpreted
def test_a_stop_is_heard_inside_an_interpreted_launch(monkeypatch):
    from triton.runtime.interpreter import interpreter_builder

    job, programs, real = Job(), [], type(interpreter_builder).set_grid_idx

    def counted(self, *program):
        programs.append(program)
        if len(programs) == 3:
            job.stop()
        real(self, *program)

    monkeypatch.setattr(type(interpreter_builder), "set_grid_idx", counted)
    with pytest.raises(Stopped), job.stops_launches():
        launch_flex(LLAMA, BATCH, job=job)
    assert len(programs) == 3
    assert launch_flex(LLAMA, BATCH).exact_enough  # the hook is gone
    assert len(programs) > 6


def test_memory_that_runs_out_is_reported_and_other_failures_are_not_hidden():
    wanted = pytest.raises(ScenarioError, match="does not fit into the memory")
    with wanted as caught, kernel_errors_as_scenario_errors("This cache"):
        torch.empty(2**50, dtype=torch.int8)
    assert caught.value.code == "out_of_memory"
    with (
        pytest.raises(RuntimeError, match="shapes"),
        kernel_errors_as_scenario_errors("This product"),
    ):
        torch.ones(2, 3) @ torch.ones(2, 3)


@pytest.mark.parametrize(
    ("mod", "why"),
    [
        (mods.float_mask, "does not return true or false"),
        (mods.int_mask, "does not return true or false"),
        (mods.nothing_mask, "NoneType|void"),
        (mods.typo_mask, "kye.*return kye <= query|return kye <= query.*kye"),
    ],
)
def test_a_mask_of_ones_own_that_fails_is_reported_with_an_example(mod, why):
    own = masks.Mask("mine", mod, masks.causal().torch_mask_mod)
    with pytest.raises(ScenarioError, match=f"(?s)(?:{why}).*Example") as caught:
        launch_flex(LLAMA, BATCH, custom_mask=own)
    assert (caught.value.code, caught.value.field) == ("mask_stops", "mask")
    assert mod.__name__ in caught.value.message


def test_shared_memory_that_runs_out_is_reported():
    from triton.runtime.errors import OutOfResources

    wanted = pytest.raises(ScenarioError, match=r"needs 300,000 of shared memory.*232,448")
    with wanted as caught, kernel_errors_as_scenario_errors("A tile"):
        raise OutOfResources(300_000, 232_448, "shared memory")
    assert caught.value.code == "out_of_shared_memory"


@pytest.mark.parametrize("name", [name for name in FLEX_MISTAKES if "shared" not in name])
def test_every_mistake_is_refused_and_the_next_launch_works(name):
    made = make_flex_mistake(LLAMA, mistake=name)
    assert made.after.exact_enough
    assert made.after.unread_stays_unread
    expected = {
        "a tile of 8": "Nearest valid value: 16",
        "a tile of 48": "Nearest valid value: 32",
        "a tile larger than the mask block": "Nearest valid: 16",
        "a mask with five parameters": "must take 6",
        "a mask with a Python if": "if query > key:",
        "more memory than there is": "memory of this device",
    }
    assert expected[name] in made.said
    if "mask with" in name:
        assert "@triton.jit" in made.tried
        assert "Example:\n@triton.jit" in made.said


def test_an_unknown_mistake():
    with pytest.raises(ScenarioError, match="a tile of 8"):
        make_flex_mistake(LLAMA, mistake="a tile of 9")


@pytest.mark.thorough
@pytest.mark.slow
def test_a_tile_too_large_for_shared_memory():
    made = make_flex_mistake(LLAMA, mistake="more shared memory than a program has")
    assert "does not fit" in made.said
    assert made.after.exact_enough


def test_pairs_are_those_that_the_mask_lets_through():
    paged = lay_out([random_request(70, 3), random_request(9, 9)], 16)
    assert seen_pairs(paged, masks.causal()) == 68 + 69 + 70 + 45
    assert seen_pairs(paged, masks.sliding_window(4)) == 3 * 4 + 1 + 2 + 3 + 6 * 4
    assert seen_pairs(paged, masks.full()) == 3 * 70 + 81


def test_the_roof_is_the_slower_of_products_and_copies():
    speed = FlexSpeed(2e-3, 10**12, 10**9, 1e15, 2e12)
    assert speed.tflops_per_s == 500
    assert (speed.bound, speed.percent_of_roof) == ("matmul", 50)
    decode = FlexSpeed(1e-3, 10**9, 10**9, 1e15, 2e12)
    assert (decode.bound, round(decode.percent_of_roof)) == ("copy", 50)

"""Arguments that no launch takes: refused at once by every method, with what is allowed."""

import math

import pytest

import workbench as wb
from workbench.core.flex.batch import KINDS
from workbench.core.flex.lab import KERNELS, OURS_FAST
from workbench.core.tables.batch_grammar import BatchRequest

PLAN = wb.resolve(
    model="gemma-3-1b", backend="FLEX_ATTENTION", kv_cache_memory_bytes="20 GiB", max_model_len=4096
)
SMALL = "q4_q1s9"


def flex(**options):
    return wb.flex(PLAN, SMALL, **options)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: flex().launch(kernel="bitwise"), "Kernel 'bitwise' is not known. Nearest: our"),
        (lambda: flex().launch(kernel=None), f"Allowed: {'; '.join(sorted(KERNELS))}"),
        (lambda: flex().launch(tile=(64, 32)), "Invalid tile (64, 32). Expected queries x keys"),
        (lambda: flex().picture(build="x"), "Build 'x' is not known."),
        (lambda: flex(mask="sliding"), "Mask 'sliding' is not known. Nearest: sliding window."),
        (lambda: flex(mask=None), f"Allowed: {', '.join(sorted(KINDS))}"),
        (lambda: flex(mask_tokens="64"), "Invalid mask_tokens '64'. Expected an integer from 1"),
        (lambda: flex(mask_tokens=1.5), "Nearest valid value: 1."),
        (lambda: flex(mask_tokens=math.nan), "Nearest valid value: 1."),
        (lambda: flex(mask_tokens=10**12), "Nearest valid value: 2147483646."),
        (lambda: flex().bits("a"), "Invalid request 'a'. Expected an integer from 0"),
        (lambda: flex().bits(batches=0), "Nearest valid value: 1."),
        (lambda: flex().bits(seed=-1), "Nearest valid value: 0."),
        (lambda: wb.flex(PLAN, None), "Invalid batch None. Expected a text such as"),
        (lambda: wb.flex(PLAN, []), "at least one BatchRequest"),
        (lambda: wb.flex(PLAN, [1, 2]), "Invalid batch [1, 2]"),
        (lambda: wb.tables(PLAN, [BatchRequest(0, 4)]), "Invalid query_tokens 0."),
        (lambda: wb.tables(PLAN, [BatchRequest(9, 4)]), "Nearest valid value: 4."),
        (lambda: wb.tables(PLAN, None), "Invalid batch None."),
        (lambda: wb.tables(PLAN, SMALL).finish(0), "no request in row 0"),
        (lambda: wb.tables(PLAN, SMALL).decode(), "The batch has not begun: call launch() first."),
        (lambda: wb.tables(PLAN, SMALL).admit(10), "Invalid batch (10,)."),
        (lambda: wb.tables(PLAN, SMALL).admit("2q1"), "2 requests are given where one is expected"),
        (lambda: wb.measure(None, "r.db"), "No kernel None is swept."),
        (lambda: wb.measure("flex", None), "Invalid results file None. Expected a path."),
        (lambda: wb.measure("flex", "r.db", place="x"), "Invalid place 'x'."),
        (lambda: wb.measure("flex", "r.db", configurations=0), "Nearest valid value: 1."),
        (lambda: wb.measure("flex", "r.db", configurations="2"), "Expected an integer from 1"),
        (lambda: wb.measure("block-table", "r.db", bitwise=True), "bitwise is of flex alone"),
    ],
)
def test_what_is_not_taken_is_refused_with_what_is(call, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the words are what matters
        call()
    assert words in str(error.value)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("tokens", [1.5, "3", 0, True])
def test_a_refused_step_leaves_the_requests_as_they_were(tokens):
    session, other = wb.tables(PLAN, SMALL), wb.tables(PLAN, SMALL)
    for one in (session, other):
        one.launch()
    with pytest.raises(wb.ScenarioError, match="Invalid tokens"):
        session.decode(tokens)
    assert session.requests == other.requests
    assert session.decode() == other.decode()
    assert session.finish(0).rows == other.finish(0).rows


def test_a_batch_that_has_not_begun_is_counted():
    session = wb.tables(PLAN, SMALL)
    assert repr(session).startswith("block tables of 2 requests, which launch() begins,")
    session.launch()
    assert repr(session).startswith("block tables of 2 requests, fast path")


def test_our_kernel_says_that_the_tile_is_not_vllms():
    run = flex().launch()
    assert run.place.path == OURS_FAST
    assert "vLLM's tile" in run.place.note
    assert repr(run) == str(run)
    dense = wb.resolve(model="gemma-3-1b", kv_cache_memory_bytes="20 GiB", max_model_len=4096)
    assert "vLLM's tile" not in wb.flex(dense, SMALL).launch().place.note


def test_a_closed_measurement_says_so(tmp_path):
    with wb.measure("block-table", tmp_path / "r.db", configurations=1) as sweep:
        pass
    for call in (lambda: sweep.rows, sweep.run, sweep.start):
        with pytest.raises(wb.ScenarioError, match=r"is closed. Its rows are in .*r.db"):
            call()
    assert "done" in repr(sweep)

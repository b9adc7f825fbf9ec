"""Words and figure of a launch, of the batch-invariance lab, and of orders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.flex.batch import predicted_orders
from workbench.core.flex.lab import (
    BitLab,
    BitPlace,
    BitRun,
    BitTrial,
    FlexMistake,
    FlexPlace,
    FlexRun,
    FlexShape,
    FlexSpeed,
    OrderLab,
    OrderRow,
)
from workbench.scenario.resolution import resolve
from workbench.views.flex.bits_figure import bits_figure
from workbench.views.flex.bits_text import bits_html, orders_html
from workbench.views.flex.lab import mistake_html, run_html

SHAPE = FlexShape(4, 1, 128, 528, 16, "bfloat16")
RUN = FlexRun(
    SHAPE,
    FlexPlace("our <kernel>", "interpreter", "CPU", "float32 & not bfloat16"),
    "prefill 64 x 64",
    "causal",
    2,
    12,
    79,
    6144,
    1e-3,
    9e-3,
    0,
)
SPEED = FlexSpeed(2e-3, 10**12, 10**9, 1e15, 2e12)
EQUAL = BitTrial("batch", "row 1 of a batch of 3", 2048, 0, 0.0, (), (0, 0, 0, 0))
OTHER = BitTrial(
    "batch",
    "row 1 of a batch of 3",
    2048,
    7,
    1e-6,
    (BitPlace(52, 3, 99, 0.5, 0.25), BitPlace(53, 0, 1, 1.0, 2.0)),
    (0, 0, 4, 3),
)
PLAN = resolve(model="llama-3.1-8b", backend="FLEX_ATTENTION")


def lab(*trials, promised=("batch",)):
    runs = (
        BitRun("bitwise", "64 x 64", False, promised, (trials[0],)),
        BitRun("by size", "16 x 16", True, (), (trials[1],)),
    )
    place = FlexPlace("our kernel", "interpreter", "CPU")
    request = "request 1: 4 queries over 54 keys"
    return BitLab(
        plan=PLAN, shape=SHAPE, place=place, request=request, first_token=50, tokens=4, runs=runs
    )


def test_a_launch_in_words():
    text = run_html(RUN)
    assert "our &lt;kernel&gt;" in text
    assert "float32 &amp; not bfloat16" in text
    assert "✓ 1.00e-03 at most, within the tolerance of 9.00e-03" in text
    assert "✓ changes none of 6,144 elements of the result (" in text
    assert "kernel blocks of 16" in text
    assert "the interpreter gives no meaningful time" in text


def test_a_wrong_launch_is_called_wrong():
    text = run_html(replace(RUN, max_error=0.1, poisoned=3))
    assert "<b>✕</b> 1.00e-01 at most, above the tolerance" in text
    assert "✕ changes 3 of 6,144 elements" in text
    assert "zero times NaN" not in text
    eager = replace(RUN, poisoned=3, place=FlexPlace("torch", "eager", "CPU"))
    assert "zero times NaN" in run_html(eager)


def test_a_gpu_launch_shows_its_rates():
    text = run_html(replace(RUN, speed=SPEED, place=FlexPlace("ours", "gpu", "NVIDIA H100")))
    assert "2,000.0 us" in text
    assert "500.0 TFLOP/s" in text
    assert "50 % of the roof (matrix products: 1,000 TFLOP/s" in text


def test_a_mistake_keeps_the_lines_of_its_example():
    message = "decides in Python, line 3: if q > k:\nUse &. Example:\n@triton.jit\ndef mine():"
    text = mistake_html(FlexMistake("a mask", "def bad(): <x>", message, RUN))
    assert "if q &gt; k:<br>\nUse &amp;." in text
    assert "<pre" in text.split("Example:")[1]
    assert "✓ The next launch works" in text
    wrong = mistake_html(FlexMistake("a mask", "", message, replace(RUN, poisoned=1)))
    assert "✕ The next launch is wrong" in wrong


@pytest.mark.parametrize(
    ("trials", "promised", "message"),
    [
        ((EQUAL, OTHER), ("batch",), "0 bits differ in all 1 trials"),
        ((OTHER, OTHER), ("batch",), "✕ 1 trials differ although"),
        ((EQUAL, EQUAL), ("batch",), "Nothing is proven"),
        ((OTHER, OTHER), (), "0 bits differ in all 0 trials"),
    ],
)
def test_the_verdict(trials, promised, message):
    found = lab(*trials, promised=promised)
    assert message in bits_html(found)
    assert [row["promised"] for row in found.rows] == ["batch" in promised, False]


def test_what_differs_is_located():
    text = bits_html(lab(EQUAL, OTHER))
    assert "≠ <b> 7 of 2,048</b>, by 1.0e-06 at most, in 2 of 4 tokens" in text
    assert "first: token 52, head 3, element 99: 0.5 alone, 0.25 here; then (53, 0, 1)" in text
    assert "✕" in bits_html(lab(OTHER, OTHER))


def test_the_same_places_are_described_once():
    other = replace(OTHER, first=OTHER.first[:1])
    found = lab(EQUAL, OTHER)
    trials = (OTHER, OTHER, other)
    runs = (replace(found.runs[0], trials=(EQUAL,) * 3), replace(found.runs[1], trials=trials))
    text = bits_html(replace(found, runs=runs))
    assert text.count("7 of 2,048</b>, the same as above") == 1
    assert text.count("first: token 52") == 2


def test_the_figure_has_a_field_for_each_way_and_signs_where_bits_differ():
    figure = bits_figure(PLAN, lab(EQUAL, OTHER))
    assert len(figure.data) == 2
    assert [list(row) for row in figure.data[0].text] == [["", "", "", ""]]
    assert [list(row) for row in figure.data[1].text] == [["", "", "≠", "≠"]]
    assert figure.data[1].customdata[0][2] == "4 of 512"
    assert list(figure.data[1].x) == ["50", "51", "52", "53"]
    assert figure.layout.meta["plan"] == PLAN.fingerprint


def test_long_requests_are_drawn_in_steps_and_small():
    counts = tuple(range(1000))
    long = replace(OTHER, per_token=counts, elements=1000 * 512, differing=sum(counts))
    found = replace(lab(long, long), tokens=1000)
    figure = bits_figure(PLAN, found)
    assert len(figure.data[0].x) <= 16
    assert figure.data[0].x[0] == "50-112"
    assert figure.data[0].x[-1].endswith("-1049")
    many = replace(found, runs=tuple(replace(run, trials=(long,) * 200) for run in found.runs))
    drawn = bits_figure(PLAN, many)
    assert len(drawn.to_json()) < 150_000
    assert len(drawn.data[0].z) == 40
    assert "160 more trials" in drawn.layout.title.text
    assert "<td>194 more like these</td>\n<td>194 of 194 differ</td>" in bits_html(many)


def rows(differing):
    return (
        OrderRow("alone", "CPU", (4, 11), 64, 0, 0.0),
        OrderRow("batched", "CPU", (11, 4), 64, differing, 1e-7),
        OrderRow("batched", "GPU", (11, 4), 0, None),
    )


def test_orders_and_bits_side_by_side():
    text = orders_html(rows(5))
    assert "≠ <b>5 of 64</b>, by 1.0e-07" in text
    assert "not run here" in text
    assert "exactly where another order was predicted" in text
    assert "✕ The prediction fails: batched, CPU" in orders_html(rows(0))


ORDERS = OrderLab(
    predicted_orders(),
    (
        OrderRow("alone", "CPU", (4, 11), 64, 0, 0.0),
        OrderRow("in the batch", "CPU", (11, 4), 64, 3, 1e-7),
    ),
)
RESULTS = {
    "launch": (RUN, "our &lt;kernel&gt;", False),
    "bits": (lab(EQUAL, OTHER), "negative control", True),
    "order": (ORDERS, "exactly where another order was predicted", True),
    "mistake": (FlexMistake("a tile of 8", "tile = 8", "at least 16", RUN), "at least 16", False),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_shows_itself_as_rows_text_html_and_a_figure(name):
    result, words, has_figure = RESULTS[name]
    assert words in result._repr_html_()
    assert (result.figure("dark") is not None) == has_figure
    assert len(str(result).splitlines()) == len(result.rows)
    assert len({tuple(row) for row in result.rows}) == 1
    for row in result.rows:
        assert all(value is None or isinstance(value, ROW_TYPES) for value in row.values())


ROW_TYPES = str | int | float | bool | tuple


def test_orders_are_predicted_before_anything_ran():
    before = OrderLab(predicted_orders())
    assert "Predicted, before anything runs" in before._repr_html_()
    assert "exactly where" not in before._repr_html_()
    assert before.rows == ()
    assert "Predicted, before anything runs" in ORDERS._repr_html_()

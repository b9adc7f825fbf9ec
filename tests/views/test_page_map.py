"""The page map: bars are bytes, few enough, at every level of every kind of plan."""

from __future__ import annotations

import pytest

from tests.groups import in_groups
from tests.views.plans import EVIL, evil_plan, plan_of
from workbench.core.byte_map.of_plan import byte_map
from workbench.core.layouts.error import LayoutError
from workbench.views.bytes.map import CLASSES, map_traces, page_map
from workbench.views.bytes.places import LEVELS, MapPlace
from workbench.views.bytes.rows import LIMIT, compared, map_picture
from workbench.views.bytes.text import byte_words
from workbench.views.palette import THEMES

HYBRID = {"model": "qwen3.5-4b"}
KEYS_FIRST = {"model": "bamba-9b", "platform": "rocm", "backend": "ROCM_ATTN"}
PLANS = (
    HYBRID,
    KEYS_FIRST,
    {"model": "qwen3.5-4b", "backend": "FLEX_ATTENTION"},
    {"model": "kimi-linear-48b-a3b"},
    {"model": "falcon-mamba-7b"},
    {"model": "gemma-3-27b"},
    {"model": "deepseek-v3"},
    {"model": "llama-3.1-8b", "backend": "FLASHINFER", "compute_capability": "10.0",
     "kv_cache_dtype": "nvfp4"},
    {"model": "llama-3.1-8b", "backend": "TRITON_ATTN", "kv_cache_dtype": "int8_per_token_head"},
    {"model": "llama-3.1-8b", "platform": "cpu"},
    {"model": "llama-3.1-8b", "kv_cache_dtype": "turboquant_k8v4"},
)  # fmt: skip
HIDDEN = {"model": "llama-3.1-8b", "hidden_state_layers": 2, "num_speculative_tokens": 1}
OVER = {
    "model": "qwen3.5-4b",
    "rules": "0.33",
    "kv_cache_dtype": "fp8",
    "kv_cache_dtype_skip_layers": ("3",),
    "kv_cache_layout": "BLNHC",
}
"""Pages of several sizes that overlap in one allocation."""
MAX_BYTES = 150_000


def picture(fields, level, blocks=3, **place):
    return map_picture(byte_map(plan_of(**fields), num_blocks=blocks), MapPlace(level, **place))


def test_a_pool_lists_every_size_of_tensor():
    drawn = picture({"model": "llama-3.1-8b", "kv_cache_dtype": "turboquant_k8v4"}, "pool", 2)
    assert drawn.subtitle.startswith("32 tensors: 4 of 131,072 B")
    sizes = [row.bars[0][2] for row in drawn.rows]
    assert sizes[0] == sizes[1] == 2 * 65536 > sizes[2] == sizes[9]
    assert drawn.window == (0, 2 * 65536)


def test_hidden_states_have_a_class_and_a_name():
    drawn = picture(HIDDEN, "token", tensor=32, token=3)
    row = next(row for row in drawn.rows if row.name == "hidden states layer 32")
    assert {bar[0] for bar in row.bars} == {"hidden state"}


@pytest.mark.parametrize("level", ["block", "kernel block", "token", "head"])
def test_layers_that_overlap_a_page_of_another_size_are_drawn(level):
    drawn = picture(OVER, level, 2, tensor=8, block=1)
    assert "places in one allocation" in picture(OVER, "pool", 2).subtitle
    row = next(row for row in drawn.rows if row.name.startswith("overlapping"))
    if level == "block":
        assert row.name == "overlapping:<br>state layers 0, 4, 1, 5, ..."
    start, stop = drawn.window
    assert (row.bars[0][1], row.bars[-1][2]) == (start, stop)
    assert all(one[2] == other[1] for one, other in zip(row.bars, row.bars[1:], strict=False))
    assert len(row.bars) <= LIMIT


def test_a_byte_names_the_layers_that_overlap_it():
    pool = byte_map(plan_of(**OVER), num_blocks=2)
    words = byte_words(pool, 8, 3_000_000)
    assert sum("overlaps it" in line for line in words) == 3
    assert words[-1].startswith("State layer 6 overlaps it: there it is recurrent of block 0")


@in_groups
@pytest.mark.parametrize("fields", PLANS, ids=lambda fields: "-".join(fields.values()))
@pytest.mark.parametrize("level", LEVELS)
def test_rows_fill_the_window_without_a_gap(fields, level):
    drawn = picture(fields, level, block=1)
    start, stop = drawn.window
    for row in drawn.rows:
        assert len(row.bars) <= LIMIT
        if row.name.startswith("this"):
            continue
        assert row.bars[0][1] == start, row.name
        assert row.bars[-1][2] == stop or (level == "pool" and row.bars[-1][2] < stop), row.name
        assert all(
            one[2] == other[1] for one, other in zip(row.bars, row.bars[1:], strict=False)
        ), row.name
        assert {bar[0] for bar in row.bars} <= set(CLASSES)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("fields", PLANS, ids=lambda fields: "-".join(fields.values()))
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("blocks", [3, 10**6])
def test_every_figure_stays_small(fields, level, blocks):
    figure = page_map(plan_of(**fields), level, num_blocks=blocks)
    assert len(figure.to_json()) < MAX_BYTES
    assert [trace.name for trace in figure.data] == [
        "in another block's page" if name == "misplaced" else name for name in CLASSES
    ]


def test_the_bars_are_the_bytes_of_the_map():
    """Expect the hover text of a bar to match the byte map for every byte in it."""
    plan = plan_of(**HYBRID)
    pool = byte_map(plan, num_blocks=3)
    figure = page_map(plan, "kernel block", num_blocks=3, block=1, kernel_block=2)
    attention = next(
        n for n, text in enumerate(figure.layout.yaxis.ticktext) if "attention" in text
    )
    keys = next(trace for trace in figure.data if trace.name == "K")
    count = 0
    for row, base, length, text in zip(keys.y, keys.base, keys.x, keys.hovertext, strict=True):
        if row != attention:
            continue
        for byte in (int(base), int(base + length - 1)):
            meaning = pool.at(0, byte).of_group(3)
            assert (meaning.part, meaning.block, meaning.kernel_block) == ("K", 1, 2)
            assert f"kernel block 2, token {meaning.token}, heads 0 to 3<br>" in text
        count += 1
    assert count == 16


def test_levels_lead_down_to_the_values_of_a_head():
    sizes = []
    for level in LEVELS[1:]:
        start, stop = picture(HYBRID, level, block=1, kernel_block=3, token=5, head=2).window
        sizes.append(stop - start)
    assert sizes == [3 * 2_162_688, 2_162_688, 65_536, 2048, 512]
    values = picture(HYBRID, "head", token=5, head=2).rows[1]
    assert [bar[3] for bar in values.bars] == [str(number) for number in range(256)]


def test_the_same_bytes_are_attention_and_state():
    drawn = picture(HYBRID, "block", block=2)
    assert [row.name for row in drawn.rows] == [
        "page", "attention layer 3", "state layers 0, 1, 2", "this block"
    ]  # fmt: skip
    kinds = [{bar[0] for bar in row.bars} for row in drawn.rows]
    assert kinds == [{"page"}, {"K", "V"}, {"conv", "recurrent", "padding"}, {"selected"}]


def test_a_token_of_a_head_major_page_is_in_pieces():
    plan = plan_of(**HYBRID)
    drawn = map_picture(byte_map(plan, num_blocks=3, layout="HND"), MapPlace("token", token=3))
    assert len(drawn.rows[-1].bars) == 4


def test_a_scattered_token_is_shown_where_it_begins():
    drawn = picture(KEYS_FIRST, "token", token=9, head=1, part="V")
    start, stop = drawn.window
    assert stop - start == 2 * 25
    assert "pieces" in drawn.subtitle
    assert [bar[3] for bar in drawn.rows[1].bars][:6] == [f"t{token} h0" for token in range(5, 11)]
    assert drawn.rows[-1].bars[0][1:3] == (start + 8, start + 10)


@pytest.mark.parametrize(
    ("fields", "rule", "blocks", "wrong"),
    [
        (KEYS_FIRST, "never", 1, 0.0),
        (KEYS_FIRST, "never", 2, 0.5),
        (KEYS_FIRST, "never", 3, 2 / 3),
        (KEYS_FIRST, "guessed", 2, 0.0),
        ({"model": "bamba-9b"}, "guessed", 2, 0.5),
        ({"model": "bamba-9b"}, "guessed", 3, 0.0),
        ({"model": "bamba-9b"}, "never", 2, 0.0),
    ],
)
def test_misplaced_bytes_are_marked_next_to_the_right_ones(fields, rule, blocks, wrong):
    figure = page_map(plan_of(**fields), "tensor", num_blocks=blocks, compare=rule)
    marked = next(trace for trace in figure.data if "another" in trace.name)
    total = byte_map(plan_of(**fields), num_blocks=blocks).tensors[0].raw_bytes
    assert sum(marked.x) == pytest.approx(wrong * total)
    assert marked.marker.pattern.shape == "x"
    assert all("misplaced" in text for text in marked.hovertext)
    rows = {figure.layout.yaxis.ticktext[row] for row in marked.y}
    assert all("same with" in row for row in rows)


def test_stretches_of_many_blocks_hold_all_parts():
    for fields, classes in (
        (HYBRID, ["K and V", "whole state"]),
        ({"model": "kimi-linear-48b-a3b"}, ["latent", "whole state"]),
    ):
        rows = picture(fields, "tensor", blocks=10**6).rows[1:]
        assert [{bar[0] for bar in row.bars} for row in rows] == [{name} for name in classes]
    wrong = byte_map(plan_of(**KEYS_FIRST), num_blocks=10**4, rule="never")
    kinds = {bar[0] for bar in map_picture(wrong, MapPlace("tensor")).rows[1].bars}
    assert "misplaced" in kinds


def test_a_guess_that_stops_says_so():
    figure = page_map(plan_of(model="bamba-9b"), "tensor", num_blocks=2, compare="guessed")
    assert "vLLM stops: Fail to determine" in figure.layout.title.text.replace("<br>", " ")


def test_overlapping_blocks_are_reported_and_not_drawn():
    plan = plan_of(model="bamba-9b", backend="FLEX_ATTENTION")
    other = compared(plan, "guessed", num_blocks=2)
    assert other.pool is None
    drawn = map_picture(byte_map(plan, num_blocks=2), MapPlace("tensor"), other)
    assert "two owners" in drawn.subtitle


@pytest.mark.parametrize("theme", THEMES)
def test_themes(theme):
    figure = page_map(plan_of(**HYBRID), theme=theme)
    assert figure.layout.font.color == THEMES[theme].text
    assert figure.layout.paper_bgcolor == THEMES[theme].paper


def test_a_window_shows_any_bytes():
    drawn = picture(HYBRID, "block", window=(65_530, 65_545))
    assert drawn.window == (65_530, 65_545)
    assert [bar[3] for bar in drawn.rows[1].bars][:4] == ["253", "254", "255", "0"]


WRONG = {
    "level": {"level": "page"},
    "tensor": {"level": "block", "tensor": 8},
    "block": {"level": "block", "block": 3},
    "kernel_block": {"level": "token", "kernel_block": 33},
    "token": {"level": "token", "token": 16},
    "head": {"level": "head", "head": -1},
    "part": {"level": "head", "part": "W"},
    "window": {"level": "block", "window": (10, 10)},
    "compare": {"level": "block", "compare": "unknown"},
}


@pytest.mark.parametrize("field", WRONG)
def test_what_does_not_exist_is_refused(field):
    with pytest.raises(LayoutError) as found:
        page_map(plan_of(**HYBRID), num_blocks=3, **WRONG[field])
    assert found.value.field == field


def test_a_byte_in_words():
    pool = byte_map(plan_of(**HYBRID), num_blocks=3)
    place, attention, states = byte_words(pool, 0, 2_162_688 + 65_536 + 2048 + 514)
    assert place == "Byte 2,230,786 of tensor 0 is byte 68,098 of page 1."
    assert attention == (
        "To attention layer 3 it is K of block 1, kernel block 1, token 17 (1 in it), head 1, "
        "value 1, byte 0 of the value."
    )
    assert states.startswith("To state layers 0, 1, 2 it is recurrent of block 1, head 0, value")
    padding = byte_words(pool, 0, 2_162_687)[2]
    assert padding == "To state layers 0, 1, 2 it is padding of block 0."
    wrong = byte_map(plan_of(**KEYS_FIRST), num_blocks=3, rule="never")
    words = byte_words(wrong, 0, wrong.tensors[0].page_bytes // 2)
    assert ", misplaced in page 0," in words[1]


def test_no_name_reaches_the_figure():
    assert evil_plan().model.name == EVIL
    plan = plan_of(model="bamba-9b")
    assert "onerror" not in page_map(plan).to_json()


def test_the_same_plan_gives_the_same_figure():
    assert page_map(plan_of(**HYBRID)).to_json() == page_map(plan_of(**HYBRID)).to_json()


def test_a_trace_never_lacks_a_property_that_another_picture_sets():
    """Check that a live figure can be updated in place."""
    shapes = set()
    for level in LEVELS:
        traces = map_traces(picture(HYBRID, level))
        shapes.add(tuple(frozenset(trace.to_plotly_json()) for trace in traces))
    assert len(shapes) == 1

"""Figures and texts of a block-table step say what the step holds, and draw no more than fits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from workbench.core.tables.step import AccessCounts, GroupStep, StepRow, TableStep
from workbench.views.tables.figure import MAX_COLUMNS, MAX_ROWS, block_tables, slot_map
from workbench.views.tables.text import place, step_html, verdict

LIMIT = 150_000


def group(rows, ratio, kernel=16):
    return GroupStep(
        name="0: FullAttention",
        is_mamba=False,
        block_size=ratio * kernel,
        kernel_block_size=kernel,
        blocks=rows,
        source=rows,
        source_holds="manager blocks",
        table=tuple(
            tuple(block * ratio + part for block in row for part in range(ratio)) for row in rows
        ),
        slots=(*tuple(row[0] * ratio * kernel + 3 for row in rows), -1, -1),
    )


def step(rows=((5, 6), (7,)), ratio=2):
    return TableStep(
        title="decode 1",
        path="fast",
        mode="interpreter",
        device="CPU",
        target=None,
        rows=tuple(StepRow(i, 1, 4) for i in range(len(rows))),
        groups=(group(rows, ratio),),
        positions=(3,) * len(rows),
        owners=tuple(range(len(rows))),
        free_blocks=9,
        mismatch=None,
        counted=AccessCounts(2, 8, 100, 50, 600),
    )


def test_a_block_and_its_kernel_blocks_share_a_colour():
    managers, kernels = block_tables(step()).data
    for row, wide in zip(managers.z, kernels.z, strict=True):
        for column, colour in enumerate(row):
            assert list(wide[2 * column : 2 * column + 2]) == [colour, colour]
    assert kernels.customdata[0][3] == "kernel block 13 = 6 x 2 + 1<br>tokens 48 to 63"
    assert managers.customdata[1][1] == ""
    assert managers.text[0][1] == "6"


def test_neighbours_differ_and_the_null_block_has_a_colour_of_its_own():
    managers, _kernels = block_tables(step(((0, 0, 1, 2, 3, 4, 5, 6, 7, 8),))).data
    colours = list(managers.z[0])
    assert colours[:2] == [0, 0]
    assert all(one != two for one, two in pairwise(colours[1:]))
    assert 0 not in colours[2:]


def test_few_columns_have_a_tick_each():
    layout = block_tables(step(ratio=33)).layout
    assert (layout.xaxis.dtick, layout.xaxis2.dtick) == (1, None)


def test_every_new_token_shows_its_slot():
    [cells] = slot_map(step()).data
    assert cells.customdata[0][0].endswith("slot 163 = kernel block 10 x 16 + 3")
    assert "2 slots" in slot_map(step()).layout.title.text
    assert "2 entries of padding" in slot_map(step()).layout.title.text
    assert slot_map(step()).layout.xaxis.dtick == 1  # no tick between two tokens


def test_a_huge_batch_is_cut_and_says_so():
    rows = tuple(tuple(range(1, 400)) for _ in range(200))
    large = step(rows, ratio=66)
    figure = block_tables(large)
    assert len(figure.to_json()) < LIMIT
    assert len(figure.data[1].z) == MAX_ROWS
    assert len(figure.data[1].z[0]) == MAX_COLUMNS
    assert f"{399 * 66 - MAX_COLUMNS:,} more columns" in figure.layout.title.text
    assert f"{200 - MAX_ROWS} more requests" in figure.layout.title.text
    assert len(slot_map(large).to_json()) < LIMIT


def test_the_slots_of_long_prompts_are_cut_and_say_so():
    few = step(((1,), (2,), (3,)), ratio=400)
    positions = tuple(range(6000)) * 3
    groups = (replace(few.groups[0], slots=tuple(range(6400, 6400 + len(positions)))),)
    owners = tuple(token // 6000 for token in range(len(positions)))
    rows = tuple(replace(row, query_tokens=6000) for row in few.rows)
    long = replace(few, rows=rows, groups=groups, positions=positions, owners=owners)
    figure = slot_map(long)
    assert len(figure.to_json()) < LIMIT
    assert [len(row) for row in figure.data[0].z] == [500, 500, 500]
    assert "first 500 of a request" in figure.layout.title.text


def test_text_has_place_verdict_and_counts():
    html = step_html(step())
    assert "2 launches of 8 programs, 100 loads and 50 stores, 600 bytes" in html
    assert "no meaningful time" in html
    assert "✓ agrees" in html
    assert "<b>" not in verdict(step())
    wrong = replace(step(), mismatch="group <0>, row 1: entry 2 is 7, the reference has 8")
    assert "<b>✕ differs" in verdict(wrong)
    assert "&lt;0&gt;" in verdict(wrong)


def test_time_is_shown_only_where_one_was_measured():
    on_gpu = replace(
        step(), mode="gpu", device="Some GPU", target="cuda 90", counted=None, gpu_us=12.34
    )
    assert place(on_gpu) == (
        "fast path, gpu on Some GPU, compiled for cuda 90. 12.3 us on the GPU, median."
    )
    assert "Not timed" in place(replace(on_gpu, gpu_us=None))


def test_free_blocks_of_a_sample_pool_are_called_so():
    assert "9 blocks free. " in step_html(step())
    sample = step_html(replace(step(), is_sample_pool=True))
    assert "9 blocks free of a sample pool, because the cache memory of this plan" in sample


def in_manager_blocks(ratio=2, kernel=16):
    """Return a step of 0.33: the table has the ids that were handed out."""
    found = step(ratio=ratio)
    whole = replace(
        found.groups[0],
        kernel_block_size=ratio * kernel,
        table=found.groups[0].blocks,
        table_holds="manager blocks",
        attention_kernel_block_size=kernel,
    )
    return replace(found, groups=(whole,))


def test_the_views_say_which_ids_the_table_holds():
    old, new = step(), in_manager_blocks()
    assert new.groups[0].attention_table == old.groups[0].table
    one, other = block_tables(old), block_tables(new)
    assert [list(row) for row in one.data[1].z] == [list(row) for row in other.data[1].z]
    titles = [note.text for note in other.layout.annotations]
    assert titles == [
        "manager blocks: in the table",
        "kernel blocks, 2 in each: made for attention",
    ]
    assert "blocks of 32 tokens, kernel blocks of 16" in other.layout.title.text
    assert "manager block 5 x 32" in str(slot_map(new).data[0].customdata)
    assert "kernel block" in str(slot_map(old).data[0].customdata)
    assert "The tables hold the ids that were handed out" in step_html(new)
    assert "The tables hold the ids" not in step_html(old)
    assert "the table holds" in step_html(old)

"""The labs of sweeps: their pictures, goals and points, why a point is better, and kernels."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace

import pytest

import workbench as wb
from tests.sweeps.local_dask import started
from tests.sweeps.waiting import PATIENCE_S, wait_for
from tests.ui.panels import shown_in_time
from workbench.sweeps import run
from workbench.sweeps.axes import checked_axes, default_axes
from workbench.sweeps.front import GOALS
from workbench.sweeps.kernels.fitting import Batch, Candidates
from workbench.sweeps.kernels.kernel_session import KERNELS
from workbench.sweeps.language import axes_text
from workbench.sweeps.store import Key, ResultStore, Row
from workbench.ui.panels.sweeps import kernels as tuning_kernels
from workbench.ui.panels.sweeps import panel as tuning
from workbench.ui.panels.sweeps.panel import LINES, TRADE_OFF

AXES = (
    "tensor_parallel = 1, 2, 4\nkv_cache_dtype = auto, fp8\nkv_cache_memory_bytes = 20 GiB, 40 GiB"
)


@pytest.fixture
def tab():
    panel = wb.explore(model="qwen3.5-4b", kv_cache_memory_bytes="20 GiB")
    tuning_panel = panel.open("Sweeps")
    tuning_panel.axes.value = AXES
    yield panel, tuning_panel
    assert panel.session.errors == []


def swept(tuning_panel):
    tuning_panel.start.click()
    assert shown_in_time(tuning_panel.jobs, PATIENCE_S)
    return tuning_panel


def figure(tuning_panel):
    return tuning_panel._figure.figure


def test_what_is_swept_by_default_can_be_swept(tab):
    panel, tuning_panel = tab
    tuning_panel.axes.value = axes_text(default_axes(panel.scenario))
    assert "kv_cache_memory_bytes" not in tuning_panel.axes.value
    swept(tuning_panel)
    assert len(tuning_panel.found) == 864
    assert "864</b> points" in tuning_panel._counts.value
    unknown = wb.explore(model="qwen3.5-4b").open("Sweeps")
    assert "KV-cache memory per GPU 20 GiB" in unknown.axes.value


def test_a_small_sweep_is_there_first_and_a_click_varies_one_more_setting():
    panel = wb.explore(model="qwen3.5-4b", device="H100").open("Sweeps")
    assert panel.axes.value == "Tensor parallel 1 2 4 8\nKV-cache dtype auto fp8"
    assert "4 x 2 = 8 points" in panel._size.value
    panel.vary["num_speculative_tokens"].value = True
    panel.vary["kv_cache_dtype"].value = False
    assert panel.axes.value == "Tensor parallel 1 2 4 8\nSpeculative tokens 0 1 3"
    assert "4 x 3 = 12 points" in panel._size.value
    for button in panel.vary.values():
        button.value = True
    scenario = panel.session.scenario
    assert panel._checked(scenario) == checked_axes(scenario, default_axes(scenario))[0]


def test_what_is_varied_is_marked_and_own_values_stay(tab):
    _panel, tuning_panel = tab
    pressed = {name for name, button in tuning_panel.vary.items() if button.value}
    assert pressed == {"tensor_parallel", "kv_cache_dtype"}
    tuning_panel.vary["block_size"].value = True
    assert "Tensor parallel 1 2 4\n" in tuning_panel.axes.value
    assert "20 GiB 40 GiB" in tuning_panel.axes.value
    tuning_panel.axes.value = "blok size 16"
    tuning_panel.vary["tensor_parallel"].value = True  # what cannot be read is replaced
    assert tuning_panel.axes.value.startswith("Tensor parallel 1 2 4 8")


def expected(tuning_panel):
    """Return the figure that the sweep makes of what is chosen."""
    chosen = {name: control.value for name, control in tuning_panel.measures.items()}
    found = tuning_panel.found
    is_lines = tuning_panel.picture.value == LINES
    made = found.parallel_figure() if is_lines else found.pareto_figure(**chosen)
    return made.update_layout(autosize=True).to_dict()


@pytest.mark.parametrize("name", [TRADE_OFF, LINES])
def test_every_picture_is_that_of_the_sweep(tab, name):
    _panel, tuning_panel = tab
    tuning_panel.picture.value = name
    swept(tuning_panel)
    assert figure(tuning_panel).to_dict() == expected(tuning_panel)
    tuning_panel.axes.value = "tensor_parallel 1 2"
    swept(tuning_panel)
    tuning_panel.measures["x"].value = "block_size"
    assert figure(tuning_panel).to_dict() == expected(tuning_panel)
    assert tuning_panel.measures["x"].disabled == (name == LINES)


def test_a_point_says_what_it_is_better_for_and_can_be_used(tab):
    panel, tuning_panel = tab
    swept(tuning_panel)
    label, point = tuning_panel.point.options[0]
    assert label.startswith(f"◆ {tuning_panel.found.name_of(point)}")
    assert "TP " in label
    assert "What is set differently" in tuning_panel._why.value
    wanted = tuning_panel.found.scenario_of(point)
    assert wanted != panel.scenario
    tuning_panel.use.click()
    assert panel.scenario == wanted
    assert panel.plan.settings.tensor_parallel == wanted.tensor_parallel
    assert "wb-stale" not in tuning_panel._counts._dom_classes
    assert tuning_panel.found.scenario == wanted
    assert figure(tuning_panel).to_dict() == expected(tuning_panel)


def clicked(tuning_panel, point):
    """Click the mark of a point in the picture."""
    trace, index = next(
        (number, trace.customdata.index(point))
        for number, trace in enumerate(figure(tuning_panel).data)
        if point in trace.customdata
    )
    message = {"event": "click", "trace": trace, "point": index}
    tuning_panel._figure.view._handle_custom_msg(message, [])


def test_any_point_can_be_clicked_and_used(tab):
    panel, tuning_panel = tab
    swept(tuning_panel)
    found = tuning_panel.found
    for point in found.shown_points():
        if point not in found.front:
            clicked(tuning_panel, point)
            assert tuning_panel.point.value == point
            assert found.why(point) == tuning_panel._why.value
    clicked(tuning_panel, None)
    assert tuning_panel.point.value == point
    tuning_panel.use.click()
    assert panel.scenario == found.scenario_of(point)
    assert panel.scenario.tensor_parallel == found.scenario_of(point).tensor_parallel


@pytest.mark.parametrize(
    "goals", [("waste_share",), ("smallest_prefix_tokens", "waste_share"), [*GOALS]]
)
def test_the_goals_choose_the_best_points(tab, goals):
    _panel, tuning_panel = tab
    tuning_panel.axes.value = f"{AXES}\nenable_prefix_caching true false"
    swept(tuning_panel)
    for name, box in tuning_panel.goals.items():
        box.value = name in goals
    found = tuning_panel.found
    assert set(found.goals) == set(goals)
    rows = {row["point"]: row for row in found.rows()}

    def cost(row):
        return [float("inf") if row[name] is None else -GOALS[name] * row[name] for name in goals]

    for row in rows.values():
        beaten = [
            other["point"]
            for other in rows.values()
            if cost(other) != cost(row)
            and all(map(float.__le__, *(map(float, cost(one)) for one in (other, row))))
        ]
        assert not (beaten and row["point"] in found.front)
        assert beaten or cost(row) in [cost(rows[point]) for point in found.front]
    assert figure(tuning_panel).to_dict() == expected(tuning_panel)


def test_words_are_completed_and_points_counted_while_one_types(tab):
    _panel, tuning_panel = tab
    box = tuning_panel.axes
    assert "3 x 2 x 2 = 12 points" in tuning_panel._size.value
    text = "tensor_parallel 1 2, kv_cache_dt"
    box.value = text
    assert "Nearest: KV-cache dtype (kv_cache_dtype)" in tuning_panel._size.value
    box._handle_custom_msg({"text": text, "at": len(text)}, [])
    assert box.offers["words"][0] == ["KV-cache dtype", "kv_cache_dtype"]
    assert box.offers["start"] == text.index("kv_cache")
    for content in ({"text": 1, "at": 0}, {}, {"text": "x", "at": "0"}):
        box._handle_custom_msg(content, [])
    box.value = ""
    assert "Nothing is varied" in tuning_panel._size.value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tensor_parallel", "tensor_parallel 1 2 4"),
        ("tensor_paralel 1 2", "Nearest: tensor_parallel"),
        ("backend = FLASH", "FLASHINFER"),
        ("block_size = 16\nblock_size = 32", "twice"),
        ("block_size = 0, 16", "from 1"),
    ],
)
def test_what_cannot_be_swept_is_said_in_place(tab, text, said):
    _panel, tuning_panel = tab
    tuning_panel.axes.value = text
    swept(tuning_panel)
    assert said in tuning_panel.jobs.status.value
    tuning_panel.axes.value = AXES
    swept(tuning_panel)
    assert tuning_panel.jobs.status.value == ""
    assert tuning_panel.found is not None


def test_what_was_stopped_shows_nothing_and_the_newest_wins(tab, monkeypatch):
    _panel, tuning_panel = tab
    right, gate, began = tuning.sweep, threading.Event(), threading.Event()

    def slow(scenario, axes, **_options):
        began.set()
        assert gate.wait(PATIENCE_S)
        return right(scenario, axes)

    monkeypatch.setattr(tuning, "sweep", slow)
    tuning_panel.start.click()
    assert began.wait(PATIENCE_S)
    assert not tuning_panel.jobs.stop_button.disabled
    tuning_panel.jobs.stop_button.click()
    monkeypatch.setattr(tuning, "sweep", right)
    tuning_panel.axes.value = "tensor_parallel = 1, 2"
    tuning_panel.start.click()
    gate.set()
    assert shown_in_time(tuning_panel.jobs, PATIENCE_S)
    assert len(tuning_panel.found) == 2
    assert "<b>2</b> points" in tuning_panel._counts.value


MANY = """model = qwen3.5-4b, nemotron-3-nano-30b-a3b, falcon-h1-7b, jamba-1.5-mini, bamba-9b
tensor_parallel = 1, 2, 4, 8
block_size = null, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 256, 512
num_speculative_tokens = 0, 1, 2, 3, 4, 5, 6, 7
kv_cache_dtype = auto, fp8
mamba_cache_mode = null, align, all
enable_prefix_caching = true, false
kv_cache_memory_bytes = 4 GiB, 8 GiB, 16 GiB, 20 GiB, 24 GiB, 32 GiB, 40 GiB, 48 GiB, 64 GiB
"""


def test_stop_ends_the_work_and_keeps_what_is_whole(tab, monkeypatch):
    _panel, tuning_panel = tab
    right, began, stopped = tuning.sweep, threading.Event(), threading.Event()

    def held(scenario, axes, stop, **options):
        def stop_when_stopped():
            began.set()
            assert stopped.wait(PATIENCE_S)
            return stop()

        return right(scenario, axes, stop=stop_when_stopped, **options)

    monkeypatch.setattr(tuning, "sweep", held)
    tuning_panel.axes.value = MANY
    tuning_panel.start.click()
    assert began.wait(PATIENCE_S)
    tuning_panel.jobs.stop_button.click()
    stopped.set()
    assert shown_in_time(tuning_panel.jobs, PATIENCE_S)
    assert "Stopped" in tuning_panel.jobs.status.value
    if tuning_panel.found is not None:  # some of the points were done
        assert "not reached" in tuning_panel._counts.value


def test_a_sweep_that_was_stopped_half_way_shows_its_half_and_resumes(tab, monkeypatch):
    _panel, tuning_panel = tab
    monkeypatch.setattr(run, "CHUNK_HERE", 2)
    right, resumed = tuning.sweep, []

    def stopped_after_two_points(scenario, axes, resume, progress, **_options):
        resumed.append(resume)
        seen = []
        stop = (lambda: bool(seen)) if len(resumed) == 1 else None

        def progress_seen(*at):
            seen.append(at)
            progress(*at)

        return right(scenario, axes, resume=resume, progress=progress_seen, stop=stop)

    monkeypatch.setattr(tuning, "sweep", stopped_after_two_points)
    tuning_panel.axes.value = "model = qwen3.5-4b, jamba-1.5-mini\ntensor_parallel = 1, 2"
    swept(tuning_panel)
    stopped = tuning_panel.found
    counts = stopped.table.counts
    assert (counts["missing"], counts["points"]) == (2, 4)
    assert "2 not reached" in tuning_panel._counts.value
    assert "what is shown had been resolved" in tuning_panel.jobs.status.value
    swept(tuning_panel)
    assert tuning_panel.found.table.counts["missing"] == 0
    assert tuning_panel.jobs.status.value == ""
    tuning_panel.axes.value = "tensor_parallel = 1, 2"
    swept(tuning_panel)
    assert resumed == [None, stopped, None]


def test_the_best_points_are_taken_to_vllm(tab):
    _panel, tuning_panel = tab
    swept(tuning_panel)
    found = tuning_panel.found
    records = json.loads(tuning_panel.servers.text)
    assert [record["_benchmark_name"] for record in records] == [f"point-{n}" for n in found.front]
    tuning_panel.axes.value = "model = qwen3.5-4b, nemotron-3-nano-30b-a3b"
    swept(tuning_panel)
    assert tuning_panel.servers.text.startswith("# ")


def test_a_picture_of_some_points_shows_how_many_there_are(tab):
    _panel, tuning_panel = tab
    sizes = ", ".join(str((320 + number) * 2**26) for number in range(3000))
    tuning_panel.axes.value = f"kv_cache_memory_bytes = {sizes}"
    swept(tuning_panel)
    title = figure(tuning_panel).layout.title.text
    counts = tuning_panel.found.table.counts
    assert counts["kept"] > 2000
    assert f"Pareto-optimal of {counts['kept']:,} points" in title
    assert "others drawn" in title


def test_without_a_memory_size_nothing_is_better_in_concurrency():
    found = wb.sweep(wb.Scenario(model="qwen3.5-4b"), kv_cache_memory_bytes=("20 GiB",))
    text = found.why(0)
    assert "no memory size to compare with" in text
    assert "▲ better" not in text


def test_a_sweep_of_another_scenario_is_greyed_out(tab):
    panel, tuning_panel = tab
    swept(tuning_panel)
    panel.apply(tensor_parallel=2)
    assert "wb-stale" not in tuning_panel._counts._dom_classes
    panel.apply(max_model_len=4096)
    assert "wb-stale" in tuning_panel._counts._dom_classes
    panel.undo()
    assert "wb-stale" not in tuning_panel._counts._dom_classes
    panel.apply(max_model_len=4096)
    swept(tuning_panel)
    assert "wb-stale" not in tuning_panel._counts._dom_classes


@pytest.fixture
def kernels():
    panel = wb.explore(model="qwen3.5-4b", kv_cache_memory_bytes="20 GiB")
    yield panel.open("Kernel sweeps")
    assert panel.session.errors == []


def test_what_a_kernel_s_sweep_varies_is_said_before_it_starts(kernels):
    assert "Varies block_m, block_n, num_warps" in kernels._text.value
    kernels.kernel.value = "block-table"
    assert "Varies apply_ids, " in kernels._text.value


@pytest.mark.thorough
def test_kernels_are_measured_row_by_row_stopped_and_resumed(kernels, tmp_path):
    kernels.file.value = str(tmp_path / "results.db")
    arrived, began = kernels._arrived, threading.Event()

    def held(row):
        arrived(row)
        began.set()
        assert kernels.sweep._stopping.wait(PATIENCE_S)

    kernels._arrived = held
    kernels.start.click()
    assert began.wait(PATIENCE_S)
    kernels.jobs.stop_button.click()
    assert shown_in_time(kernels.jobs, PATIENCE_S)
    kernels._arrived = arrived
    assert "Stopped at " in kernels._text.value
    assert "illegal" in kernels._text.value
    assert "no time" in kernels._table.value
    first = len(kernels._rows)
    with ResultStore(tmp_path / "results.db") as store:
        assert len(store.rows()) == first
    kernels.start.click()
    assert shown_in_time(kernels.jobs, PATIENCE_S)
    assert "Done: " in kernels._text.value
    assert f"{first} of them from before" in kernels._text.value
    assert kernels.bar.value == kernels.bar.max == first + len(kernels._rows)
    assert kernels.jobs.stop_button.disabled
    with ResultStore(tmp_path / "results.db") as store:
        assert len(store.rows()) == kernels.bar.max
        assert {row.status for row in store.rows()} == {"ok"}


def test_an_invalid_results_file_is_reported_in_place(kernels, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    kernels.file.value = str(tmp_path / "notes.txt")
    kernels.start.click()
    assert shown_in_time(kernels.jobs, PATIENCE_S)
    assert "is not a results file" in kernels.jobs.status.value
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.thorough
def test_block_tables_are_measured_as_well(kernels, tmp_path):
    kernels.kernel.value = "block-table"
    assert kernels.bitwise.disabled  # it has one configuration for all batches anyway
    kernels.file.value = str(tmp_path / "results.db")
    kernels.start.click()
    assert shown_in_time(kernels.jobs, PATIENCE_S)
    assert "4 of 4" in kernels._text.value
    assert "W2 reduced" in kernels._table.value
    kernels.start.click()
    assert shown_in_time(kernels.jobs, PATIENCE_S)
    assert "W2 reduced" in kernels._table.value  # stored rows are shown, though none is measured
    kernels.kernel.value = "flex"
    assert not kernels.bitwise.disabled


def stored(path):
    whole = {name: kind() for name, kind in KERNELS["flex"].point.items()}
    config = {**whole, "kernel": "flex", "bucket": "decode", "block_m": 64}
    with ResultStore(path) as store:
        for seconds, block_n in ((2e-5, 32), (4e-5, 64)):
            key = Key.of({**config, "block_n": block_n}, "NVIDIA H100", "abc")
            store.put(Row(key, n=9, median_s=seconds, correct=True, bitwise=True))


def newer(path):
    with closing(sqlite3.connect(path)) as file:  # one left open writes to the file when it goes
        file.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("change", "said"),
    [(newer, "has schema 99"), (lambda path: path.chmod(0o444), "cannot be written")],
)
def test_a_file_that_takes_no_rows_says_why_and_shows_what_it_holds(
    kernels, tmp_path, monkeypatch, change, said
):
    path = tmp_path / "results.db"
    stored(path)
    change(path)
    if said == "cannot be written":  # root may write everything
        monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    before = path.read_bytes()
    kernels.file.value = str(path)
    kernels.start.click()
    assert shown_in_time(kernels.jobs, PATIENCE_S)
    assert said in kernels._notes.value
    assert "showing stored results" in kernels._notes.value
    assert kernels.jobs.status.value == ""
    assert "20.0 us" in kernels._table.value
    assert "NVIDIA H100, kernel abc" in kernels._winners.value
    assert f"workbench results export {path} FOLDER --best" in kernels._winners.value
    assert path.read_bytes() == before
    assert kernels.jobs.stop_button.disabled


def plant(monkeypatch, **changes):
    configs = tuple({"number": number} for number in range(4))
    deadly = Candidates(configs, {}, {}, (Batch("W2", {"reduced": False}),))
    planted = {
        "measure": "tests.sweeps.sweep_measures:sometimes",
        "choose": lambda _target, _bitwise, _first: deadly,
        "point": {"number": int},
    }
    kernel = replace(KERNELS["flex"], **{**planted, **changes})
    monkeypatch.setattr(tuning_kernels, "KERNELS", {**KERNELS, "flex": kernel})


def test_a_worker_that_dies_is_a_row_and_the_panel_lives(kernels, tmp_path, monkeypatch):
    plant(monkeypatch)
    kernels.file.value = str(tmp_path / "results.db")
    kernels.start.click()
    assert shown_in_time(kernels.jobs, PATIENCE_S)
    assert "4 of 4" in kernels._text.value
    assert "3 failed" in kernels._text.value
    for words in ("✕ crashed", "SIGKILL", "✕ oom", "requested everything", "✓ ok"):
        assert words in kernels._table.value
    assert kernels.jobs.stop_button.disabled


@pytest.mark.thorough
def test_the_newest_request_wins(kernels, tmp_path, monkeypatch):
    plant(monkeypatch, measure="tests.sweeps.sweep_measures:slow")
    kernels.file.value = str(tmp_path / "first.db")
    kernels.start.click()
    wait_for(lambda: kernels.sweep is not None and kernels.sweep.progress.is_running)
    kernels.kernel.value = "block-table"
    kernels.file.value = str(tmp_path / "second.db")
    kernels.start.click()
    kernels.start.click()
    assert shown_in_time(kernels.jobs, PATIENCE_S)
    assert "4 of 4" in kernels._text.value
    with ResultStore(tmp_path / "first.db") as first, ResultStore(tmp_path / "second.db") as second:
        assert first.rows() == ()
        [[claimed]] = first._connection.execute("SELECT count(*) FROM claims")
        assert claimed == 0
        assert len(second.rows()) == 4


def test_stop_does_not_wait_for_the_compiler(kernels, tmp_path, monkeypatch):
    began, gate = threading.Event(), threading.Event()

    def slow(_target, _bitwise, _first):
        began.set()
        assert gate.wait(2 * PATIENCE_S)

    plant(monkeypatch, choose=slow)
    kernels.file.value = str(tmp_path / "results.db")
    kernels.start.click()
    assert began.wait(PATIENCE_S)
    kernels.jobs.stop_button.click()
    assert shown_in_time(kernels.jobs, PATIENCE_S)
    gate.set()
    assert "Stopped before anything" in kernels._text.value
    assert kernels.jobs.stop_button.disabled
    with ResultStore(tmp_path / "results.db") as store:
        assert store.rows() == ()


def is_measuring(cluster):
    """Whether a worker of a LocalCluster has a point."""
    return any(worker.processing for worker in list(cluster.scheduler.workers.values()))


@pytest.mark.thorough
@pytest.mark.slow
def test_a_cluster_measures_for_the_panel(kernels, tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="the extra `dask` is not installed")
    kernels.file.value = str(tmp_path / "results.db")
    plant(monkeypatch)
    with started(n_workers=2) as cluster:
        kernels.where.value = f" {cluster.scheduler_address} "
        kernels.start.click()
        assert shown_in_time(kernels.jobs, PATIENCE_S)
        assert "4 of 4" in kernels._text.value
        assert "3 failed" in kernels._text.value
        for words in ("✕ crashed", "tcp://", "✕ oom", "✓ ok"):
            assert words in kernels._table.value
        plant(monkeypatch, measure="tests.sweeps.sweep_measures:slow")
        kernels.file.value = str(tmp_path / "stopped.db")
        kernels.start.click()
        wait_for(lambda: is_measuring(cluster))
        kernels.jobs.stop_button.click()
        assert shown_in_time(kernels.jobs, PATIENCE_S)
        assert "0 of 4" in kernels._text.value
        assert "Stopped at " in kernels._text.value
    kernels.start.click()
    assert shown_in_time(kernels.jobs, PATIENCE_S)
    assert "No Dask scheduler answers" in kernels.jobs.status.value
    kernels.where.value = "this machine"
    kernels.start.click()
    assert shown_in_time(kernels.jobs, PATIENCE_S)
    assert "is not the address of a Dask scheduler" in kernels.jobs.status.value
    assert kernels.jobs.stop_button.disabled

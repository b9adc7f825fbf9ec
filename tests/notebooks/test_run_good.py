"""A good notebook passes, gets its environment and parameters, and leaves small files."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from workbench.notebooks import run_notebook

pytestmark = pytest.mark.notebook


def test_a_good_notebook_passes(fixture_path, tmp_path):
    environment, folder = dict(os.environ), os.getcwd()  # noqa: PTH109 - compared as text
    result = run_notebook(
        fixture_path("good"), {"count": 5}, output_dir=tmp_path, expect={"total": 10}
    )
    assert result.ok, result.report()
    assert result.results == {
        "total": 10,
        "label": None,
        "folder": "fixtures",
        "strict": "1",
        "offline": "1",
    }
    assert result.skipped == ("no GPU: nothing was timed",)
    assert result.report().startswith("good.ipynb: ok in ")
    assert len(result.slowest) == 3
    assert result.slowest[0].duration_s >= result.slowest[1].duration_s
    assert 0 < result.slowest[0].duration_s < result.duration_s
    assert (environment, folder) == (dict(os.environ), os.getcwd())  # noqa: PTH109

    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "good.executed.ipynb",
        "good.html",
        "good.results.json",
    ]
    text = result.output_path.read_text(encoding="utf-8")
    assert "widget" not in json.dumps(json.loads(text)["metadata"])
    assert "widget-view" not in text
    assert str(tmp_path) not in text
    assert result.size_after_bytes == len(text.encode()) < result.size_before_bytes


def test_widget_state_is_kept_on_request(fixture_path, tmp_path):
    result = run_notebook(fixture_path("good"), output_dir=tmp_path, keep_widget_state=True)
    assert result.ok, result.report()
    executed = json.loads(result.output_path.read_text(encoding="utf-8"))
    assert executed["metadata"]["widgets"]
    assert result.size_after_bytes == result.size_before_bytes


@pytest.mark.thorough
def test_runs_at_the_same_time_do_not_mix(fixture_path, tmp_path):
    def run(count):
        return run_notebook(
            fixture_path("good"),
            {"count": count, "label": f"run {count}"},
            output_dir=tmp_path,
            name=f"good-{count}",
        )

    counts = (3, 7, 11)
    with ThreadPoolExecutor(len(counts)) as pool:
        results = list(pool.map(run, counts))
    for count, result in zip(counts, results, strict=True):
        assert result.ok, result.report()
        assert result.results["total"] == sum(range(count))
        assert result.results["label"] == f"run {count}"
        stored = json.loads((tmp_path / f"good-{count}.results.json").read_text(encoding="utf-8"))
        assert stored["results"] == result.results
        assert f"'run {count}'" in result.output_path.read_text(encoding="utf-8").replace(
            '\\"', "'"
        )


def test_stale_results_and_widget_state_do_not_pass_for_new_ones(fixture_path, tmp_path):
    source = json.loads(fixture_path("no_results").read_text(encoding="utf-8"))
    broken = {"model_name": "OutputModel", "state": {"outputs": [{"output_type": "error"}]}}
    source["metadata"]["widgets"] = {"any": {"state": {"old": broken}}}
    path = tmp_path / "stale.ipynb"
    path.write_text(json.dumps(source), encoding="utf-8")
    stale = tmp_path / "stale.results.json"
    stale.write_text("{}", encoding="utf-8")
    result = run_notebook(path, output_dir=tmp_path)
    assert [problem.kind for problem in result.problems] == ["no_results"]
    assert result.results is None
    assert not stale.exists()

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

import pytest

from workbench.notebooks import NotebookResultsError, record_results, write_results
from workbench.notebooks.evidence import read_results
from workbench.notebooks.result_checks import check_expected


@pytest.fixture
def target(monkeypatch, tmp_path):
    path = tmp_path / "results.json"
    monkeypatch.setenv("WORKBENCH_RESULTS", str(path))
    return path


def test_without_a_runner_nothing_is_written(monkeypatch, tmp_path):
    monkeypatch.delenv("WORKBENCH_RESULTS", raising=False)
    monkeypatch.chdir(tmp_path)
    write_results({"a": (1, 2)}, skipped=["x"])
    assert list(tmp_path.iterdir()) == []


def test_results_are_merged_and_reasons_collected(target):
    write_results({"a": 1, "b": MappingProxyType({"c": [True, None, 0.5, "t"]})}, ["no GPU"])
    record_results(a=2, skipped=["no GPU", "no vLLM"])
    assert json.loads(target.read_text(encoding="utf-8")) == {
        "schema_version": 1,
        "results": {"a": 2, "b": {"c": [True, None, 0.5, "t"]}},
        "skipped": ["no GPU", "no vLLM"],
    }
    recorded = read_results(target)
    assert recorded.results["a"] == 2
    assert recorded.skipped == ("no GPU", "no vLLM")
    assert [path.name for path in target.parent.iterdir()] == ["results.json"]


def test_one_reason_may_be_given_as_text(target):
    write_results({}, skipped="no GPU")
    assert read_results(target).skipped == ("no GPU",)


def test_threads_do_not_lose_each_others_results(target):
    start = threading.Barrier(8)

    def write(number):
        start.wait()
        write_results({f"r{number}": number})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert read_results(target).results == {f"r{number}": number for number in range(8)}


class Scalar:
    def tolist(self):
        return 1


@pytest.mark.parametrize(
    ("value", "where", "why"),
    [
        ({"deep": [1, {2}]}, r"a\.deep\[1\]", "is a set"),
        (Scalar(), "'a'", r"\.item\(\)"),
        (float("nan"), "'a'", "cannot be stored in JSON"),
        (float("-inf"), "'a'", "cannot be stored in JSON"),
        ({1: 2}, "results", "not text"),
        (b"x", "'a'", "bytes"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_place(target, value, where, why):
    with pytest.raises(NotebookResultsError, match=why) as caught:
        write_results({"a": value})
    assert caught.match(where)
    assert not target.exists()


def test_a_missing_file_is_a_problem(tmp_path):
    (problem,) = read_results(tmp_path / "none.json").problems
    assert problem.kind == "no_results"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"results": {}}',
        '{"schema_version": 2, "results": {}, "skipped": []}',
        '{"schema_version": 1, "results": [], "skipped": []}',
    ],
)
def test_a_malformed_file_is_a_problem(tmp_path, text):
    path = tmp_path / "results.json"
    path.write_text(text, encoding="utf-8")
    recorded = read_results(path)
    assert recorded.results is None
    assert [problem.kind for problem in recorded.problems] == ["bad_results"]


def test_an_unexpected_value_shows_both():
    (problem,) = check_expected({"block_size": 528, "b": 1}, {"block_size": 544, "b": 1})
    assert problem.kind == "unexpected_result"
    assert problem.message == "result 'block_size' is 528, expected 544"


def test_a_missing_value_names_the_nearest():
    (problem,) = check_expected({"block_size": 528}, {"blocksize": 528})
    assert "nearest: block_size" in problem.message
    assert [*check_expected({"block_size": 528}, {"blocksize": 528}, complete=False)] == []


@pytest.mark.parametrize(
    ("recorded", "wanted", "same"),
    [
        ([1, 2], (1, 2), True),
        (1, 1.0, True),
        (1, True, False),
        (False, 0, False),
        ({"a": [1]}, {"a": (1,)}, True),
        ("1", 1, False),
    ],
)
def test_values_are_compared_as_json_holds_them(recorded, wanted, same):
    assert ([*check_expected({"a": recorded}, {"a": wanted})] == []) is same

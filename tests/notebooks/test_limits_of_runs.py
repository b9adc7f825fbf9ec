"""What a run may take and leave: memory, output and processes are limited, whatever a cell does."""

import psutil
import pytest

from workbench.notebooks import Budgets, Expectations, execute, run_notebook

FLOODS = ("printed_flood", "displayed_flood", "widget_flood", "thread_flood", "shell_flood")
LIMIT_MIB = 1


@pytest.fixture
def run(fixture_path, tmp_path):
    def with_limits(name, *, timeout_s=240, **budgets):
        wanted = Expectations(budgets=Budgets(size_kib=None, **budgets))
        return run_notebook(
            fixture_path(name), output_dir=tmp_path, timeout_s=timeout_s, expectations=wanted
        )

    return with_limits


def kinds(result):
    return [problem.kind for problem in result.problems]


def is_running(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.sampled(1)
@pytest.mark.notebook
@pytest.mark.parametrize("name", [*FLOODS, "child_flood", "one_print"])
def test_output_that_floods_stops_its_cell(name, run):
    result = run(name, output_limit_mib=LIMIT_MIB)
    assert "output_flood" in kinds(result), result.report()
    assert "timeout" not in kinds(result), result.report()
    assert result.size_before_bytes < 4 * 2**20


@pytest.mark.notebook
def test_the_text_of_an_error_is_cut(run):
    result = run("long_error", output_limit_mib=LIMIT_MIB)
    assert kinds(result) == ["cell_error"]
    assert result.problems[0].message.startswith("ValueError: xxx")
    assert result.size_before_bytes < 2**20


@pytest.mark.notebook
def test_memory_of_a_child_counts(run):
    result = run("hog_child", memory_limit_mib=400)
    assert kinds(result) == ["over_memory"], result.report()
    assert result.problems[0].cell_index == 3
    assert result.peak_bytes > 400 * 2**20


def test_the_usual_limits_hold_without_any_budget():
    assert Expectations().budgets.limits.memory_bytes == 4 * 2**30
    assert Expectations().budgets.limits.output_bytes == 32 * 2**20


@pytest.mark.notebook
def test_what_stays_on_this_machine_is_not_network_use(run):
    result = run("local_child")
    assert result.ok, result.report()


@pytest.mark.notebook
def test_a_captured_command_that_fails_stops_its_cell(run):
    [problem] = run("captured_command").problems
    assert problem.kind == "cell_error"
    assert "non-zero exit status 4" in problem.message


@pytest.mark.notebook
def test_no_process_is_left_in_another_session_or_as_a_daemon(run):
    left = run("orphans").results["left"]
    assert len(left) == 2
    assert not any(map(is_running, left))


@pytest.mark.thorough
@pytest.mark.notebook
def test_no_process_is_left_by_a_worker_that_does_not_come_back(run, monkeypatch):
    allowed, patience = 600, 25
    others = execute.STARTS * execute.START_TIMEOUT_S + allowed + execute.GRACE_S
    monkeypatch.setattr(execute, "_CLOSING_S", patience - others)
    result = run("orphans_and_wait", timeout_s=allowed)
    assert kinds(result) == ["timeout"]
    left = result.results["left"]
    assert len(left) == 2
    assert not any(map(is_running, left))

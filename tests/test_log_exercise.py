"""Lesson 9: cases are fair for every seed, and each typical mistake gets its own explanation."""

import pytest

import workbench as wb
from workbench.core.errors import ScenarioError
from workbench.exercises import EXERCISES
from workbench.exercises.log_case import FAULTS, FIXED, MODELS, outcome

NAMES = ("fatal_line", "log_meaning", "log_scenario", "log_change")
SEEDS = range(3 * len(FAULTS))
MEMORY = wb.log_case(1)
"""Falcon-H1 on four ranks, with too little memory for 131,072 tokens."""
RIGHT = EXERCISES["log_scenario"].solution(MEMORY)


pytestmark = pytest.mark.usefixtures("no_progress")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_shipped_solutions_are_right_for_every_seed(seed):
    case = wb.log_case(seed)
    for name in NAMES:
        checked = wb.check(None, name, case=case, solve=True)
        assert checked.ok is True, repr(checked)
    assert wb.progress().solved == ()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_case_is_what_the_log_doctor_and_the_rules_say(seed):
    case = wb.log_case(seed)
    assert case.log == wb.log_case(seed).log
    report = wb.explain_log(case.log)
    assert report.failure.is_reproduced
    assert report.failure.problem == case.code
    assert report.failure.line == case.line
    [repair] = next(case.repairs).items()
    assert repair[0] not in FIXED
    assert wb.resolve(case.scenario.replace(**dict([repair]))).errors == ()
    assert len(set(case.statements.values())) == 4
    assert "✓" not in repr(case)


def test_every_seed_is_another_log_and_every_fault_occurs():
    cases = [wb.log_case(seed) for seed in SEEDS]
    assert len({case.log for case in cases}) == len(cases)
    assert {case.code for case in cases} == set(FAULTS)
    assert len({case.scenario.model for case in cases}) >= len(MODELS) - 2


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None, True])
def test_an_invalid_seed_is_refused(seed):
    with pytest.raises(ScenarioError, match="Invalid seed"):
        wb.log_case(seed)


def last(words):
    """The number of the last line with these words."""
    lines = MEMORY.log.splitlines()
    return max(at for at, line in enumerate(lines, 1) if words in line)


LINES = {
    "the server's error": (last("Engine core initialization failed"), "not why"),
    "the traceback": (last("Traceback"), "where the error was raised"),
    "the engine's report": (last("EngineCore failed to start"), "not why"),
    "an INFO line": (last("Available KV cache memory"), "printed by every start"),
    "a line that is not there": (99, "from 1 to 19"),
    "text": ("15", "a line number"),
    "a truth value": (True, "a line number"),
}


@pytest.mark.parametrize("kind", LINES)
def test_a_wrong_line_is_explained(kind):
    answer, words = LINES[kind]
    checked = wb.check(answer, "fatal_line", case=MEMORY)
    assert checked.ok is False
    assert words in repr(checked)


def test_the_line_of_pydantic_points_to_the_next():
    case = wb.log_case(4)
    checked = wb.check(case.line - 1, "fatal_line", case=case)
    assert "in the line below" in repr(checked)


def test_a_wrong_statement_shows_the_log_that_it_explains():
    seen = set()
    for letter, statement in MEMORY.statements.items():
        checked = wb.check(letter.lower(), "log_meaning", case=MEMORY)
        assert checked.ok is (statement == MEMORY.meaning)
        if not checked.ok:
            said = dict(checked.rows)[f"{letter} is said of"]
            assert "To serve at least one request" not in said
            seen.add(said)
    assert len(seen) == 3
    for answer in ("E", 3, ["A"], "A, B"):
        assert "one of A, B, C, D" in repr(wb.check(answer, "log_meaning", case=MEMORY))


SCENARIOS = {
    "the model alone": (
        wb.Scenario(model="falcon-h1-7b"),
        ("log says: tensor_parallel = 4", "Line 3"),
    ),
    "another model": (RIGHT.replace(model="falcon-h1-1.5b"), ("log says: model = falcon-h1-7b",)),
    "another length": (RIGHT.replace(max_model_len=8192), ("max_model_len = 131072", "8192")),
    "without the memory": (RIGHT.replace(kv_cache_memory_bytes=None), ("Line 10", "0.7 GiB")),
    "another memory": (RIGHT.replace(kv_cache_memory_bytes="7 GiB"), ("Line 10",)),
    "another release": (RIGHT.replace(rules="0.33"), ("log says: rules = 0.23",)),
    "a field more": (RIGHT.replace(kv_cache_dtype="fp8"), ("ends differently",)),
    "a dictionary without a model": ({"tensor_parallel": 4}, ("has no model",)),
    "text": ("vllm serve", ("expected: wb.Scenario",)),
}


@pytest.mark.parametrize("kind", SCENARIOS)
def test_a_wrong_scenario_is_compared_with_the_lines(kind):
    answer, words = SCENARIOS[kind]
    checked = wb.check(answer, "log_scenario", case=MEMORY)
    assert checked.ok is False
    for word in words:
        assert word in repr(checked)


@pytest.mark.parametrize(
    "answer",
    [
        wb.Scenario(
            model="tiiuae/Falcon-H1-7B-Base",
            tensor_parallel=4,
            max_model_len=131_072,
            kv_cache_memory_bytes="0.7 GiB",
        ),
        RIGHT.to_dict(),
    ],
)
def test_a_right_scenario_counts_in_other_words(answer):
    checked = wb.check(answer, "log_scenario", case=MEMORY)
    assert checked.ok is True, repr(checked)


CHANGES = {
    "nothing": ({}, "Change one field"),
    "two fields": ({"max_model_len": 8192, "tensor_parallel": 8}, "Change one field"),
    "the model": ({"model": "qwen3.5-4b"}, "model stays as it is"),
    "the same value": ({"max_model_len": 131_072}, "as in the log"),
    "too little": ({"max_model_len": 65_536}, "same error"),
    "another error": ({"tensor_parallel": 3}, "ends with a new error"),
    "a misspelt field": ({"max_modellen": 8192}, "Nearest: max_model_len"),
    "an invalid value": ({"max_model_len": "long"}, "no such setting"),
    "no name": ({3: 4}, "no such setting"),
    "a number": (8192, "a dictionary such as"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_wrong_change_is_explained(kind):
    answer, words = CHANGES[kind]
    checked = wb.check(answer, "log_change", case=MEMORY)
    assert checked.ok is False
    assert words in repr(checked)
    assert "Traceback" not in repr(checked)


def test_any_change_that_starts_is_right():
    for change in ({"max_model_len": 8192}, {"kv_cache_memory_bytes": "8 GiB"}):
        checked = wb.check(change, "log_change", case=MEMORY)
        assert checked.ok is True
        assert "vllm serve tiiuae/Falcon-H1-7B-Base" in dict(checked.rows)["command"]


@pytest.mark.parametrize("name", NAMES)
def test_the_verdicts_of_wrong_answers_differ(name):
    wrong = {
        "fatal_line": [answer for answer, _ in LINES.values()],
        "log_meaning": [*"ABCDE"],
        "log_scenario": [answer for answer, _ in SCENARIOS.values()],
        "log_change": [answer for answer, _ in CHANGES.values()],
    }[name]
    verdicts = {
        tuple(row for row in found.rows if "hint" not in row[0])
        for found in (wb.check(answer, name, case=MEMORY) for answer in wrong)
        if not found.ok
    }
    assert len(verdicts) >= (4 if name == "log_meaning" else 6)


@pytest.mark.parametrize("name", NAMES)
def test_an_exercise_about_a_log_expects_its_case(name):
    with pytest.raises(ScenarioError, match=r"wb\.log_case"):
        wb.check(3, name)
    assert "about a log" in repr(wb.check(3, name, case="a log"))
    assert wb.check(None, name, case=MEMORY).ok is None


def test_a_log_is_escaped_and_numbered():
    html = MEMORY._repr_html_()
    assert "&#x27;" in html
    assert "  1 (APIServer" in html
    count = len(MEMORY.log.splitlines())
    assert html.count("text-indent") == count
    assert html.count("pre-wrap; overflow") == count, "no empty lines between them"


def test_a_command_in_a_verdict_keeps_its_lines():
    verdict = wb.check(next(MEMORY.repairs), "log_change", case=MEMORY)._repr_html_()
    assert '<td style="white-space: pre-wrap">vllm serve ' in verdict
    assert " \\\n" in verdict


def test_the_outcome_of_a_scenario_is_a_value():
    assert isinstance(outcome(wb.Scenario(model="no-such-model")), wb.WorkbenchError)

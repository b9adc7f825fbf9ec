"""Lesson 8: a right record passes, each typical mistake is named, and no trial leaves an entry."""

from dataclasses import replace

import pytest

import workbench as wb
from workbench.core.errors import ScenarioError
from workbench.core.versions.v0_23.backends import BACKENDS
from workbench.exercises import EXERCISES
from workbench.exercises.backends import FACTS, MODELS

RIGHT = EXERCISES["heron_backend"].solution()()
A = wb.adding


@pytest.fixture(autouse=True)
def nothing_is_kept(no_progress):
    before = dict(BACKENDS)
    yield
    assert dict(BACKENDS) == before


WRONG = {
    "another name": ({"name": "HERON"}, "Its name is HERON_ATTN"),
    "a platform too many": ({"platforms": ("cuda", "rocm")}, "It runs on CUDA"),
    "a text for a tuple": ({"platforms": "cuda"}, "a single entry has a comma"),
    "a number for a tuple": ({"supported": 80}, "a tuple, for example"),
    "exactly 128": ({"supported": (80, 128)}, "any multiple of 128"),
    "multiples of 80": ({"supported": (A.MultipleOf(80), A.MultipleOf(128))}, "exactly 80"),
    "any device": ({"capabilities": A.Capabilities()}, "9.0 or later"),
    "Hopper alone": ({"capabilities": A.Capabilities(majors=(9,))}, "9.0 or later"),
    "a range of heads": ({"head_sizes": A.HeadSizes(at_most=256)}, "64, 128 and 256"),
    "a tuple for heads": ({"head_sizes": (64, 128)}, "a wb.adding.HeadSizes"),
    "no float16": ({"kv_cache_dtypes": ("auto", "fp8", "fp8_e4m3", "bfloat16")}, "is float16"),
    "e5m2": ({"kv_cache_dtypes": (*RIGHT.kv_cache_dtypes, "fp8_e5m2")}, "not e5m2"),
    "sinks everywhere": ({"supports_sinks": lambda query: True}, "Attention sinks"),
    "sinks as a truth value": ({"supports_sinks": True}, "a function of the query"),
    "no rank": ({"ranks": ()}, "before every other backend"),
    "a late rank": ({"ranks": (A.Rank("cuda", 25),)}, "before every other backend"),
    "a rank in other words": ({"ranks": (("cuda", 5),)}, "the field `ranks`"),
    "no cache": ({"cache": None}, "a wb.adding.CacheLayout"),
    "K and V first": (
        {"cache": A.CacheLayout(axes=(A.AXES[1], A.AXES[0], *A.AXES[2:]))},
        "[blocks, K and V",
    ),
    "an axis that does not exist": ({"cache": A.CacheLayout(axes=("pages",))}, "[blocks, K and V"),
    "a field more": ({"is_mla": True}, "the field `is_mla`, now True"),
    "an exact block size": ({"exact_block_size": True}, "the field `exact_block_size`"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_mistake_is_named_by_the_sentence_that_it_contradicts(kind):
    fields, words = WRONG[kind]
    checked = wb.check(lambda: replace(RIGHT, **fields), "heron_backend")
    shown = repr(checked)
    assert checked.ok is False
    assert words in shown
    assert "Traceback" not in shown
    assert "0x" not in shown
    assert next(iter(fields)) in shown


def test_the_mistakes_have_verdicts_of_their_own():
    seen = set()
    for fields, _ in WRONG.values():
        rows = wb.check(lambda fields=fields: replace(RIGHT, **fields), "heron_backend").rows
        seen.add(tuple(row for row in rows if "hint" not in row[0]))
    assert len(seen) == len(WRONG)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (RIGHT, "a function that returns the record"),
        (lambda: {"name": "HERON_ATTN"}, "got: a dict"),
        (lambda: A.Backend("HERON_ATTN"), "missing 2 required"),
        (lambda: nothing_of_this_name, "NameError"),  # noqa: F821
    ],
)
def test_what_is_not_a_record_is_explained(answer, words):
    checked = wb.check(answer, "heron_backend")
    assert checked.ok is False
    assert words in repr(checked)


def test_a_record_in_other_words_is_right():
    same = replace(
        RIGHT,
        capabilities=A.Capabilities(majors=(9, 10, 12)),
        supported=(A.MultipleOf(128), 80),
        kv_cache_dtypes=("fp8_e4m3", "fp8", "bfloat16", "float16", "auto"),
        ranks=(A.Rank("cuda", 1), A.Rank("cuda", 5)),
    )
    assert wb.check(lambda: same, "heron_backend").ok is True


def test_the_right_record_has_every_fact_and_each_fact_a_scenario():
    for fact in FACTS:
        assert fact.sentence.endswith(".")
        assert fact.scenarios
        assert hasattr(RIGHT, fact.field)
    with A.trial(RIGHT):
        assert [wb.resolve(model=model).block_size for model in MODELS] == [560, 2160, 80]


WRONG_BLOCKS = {
    "today's blocks": ([528, 2096, 16], "today's block, for FLASH_ATTN"),
    "multiples of 128": ([640, 2176, 128], "larger than it needs to be"),
    "a multiple of 128 alone": ([560, 2176, 80], "not a multiple of 80"),
    "rounded down": ([480, 2080, 80], "round up"),
    "the states": ([524, 2084, 16], "the state itself"),
    "the default of Llama": ([560, 2160, 16], "llama-3.1-8b"),
    "one number": (560, "3 numbers"),
    "text": (["560", "2160", "80"], "this is text"),
}


@pytest.mark.parametrize("kind", WRONG_BLOCKS)
def test_a_wrong_prediction_gets_a_hint(kind):
    answer, words = WRONG_BLOCKS[kind]
    checked = wb.check(answer, "heron_blocks")
    assert checked.ok is False
    assert checked.rows[-1][0] == "hint 1 of 3"
    assert words in repr(checked)


def test_a_trial_ends_also_after_an_error():
    with A.trial(RIGHT):
        assert wb.resolve(model="qwen3.5-4b", rules="0.33").backend == "HERON_ATTN"
    with pytest.raises(ScenarioError, match="block_size"), A.trial(RIGHT):
        wb.Scenario(block_size="large")
    with pytest.raises(ScenarioError, match="not known"):
        wb.resolve(model="qwen3.5-4b", backend="HERON_ATTN")


def test_a_trial_refuses_a_name_that_is_taken_and_other_things():
    with pytest.raises(ScenarioError, match="exists"), A.trial(RIGHT, RIGHT):
        pass
    with pytest.raises(ScenarioError, match="type dict"), A.trial({}):
        pass

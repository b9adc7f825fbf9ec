"""Lesson 8: a backend from its data sheet, judged by the plans that follow from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from types import FunctionType
from typing import Any, NamedTuple

from workbench.core.adding import Backend, trial
from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.exercises.compare import described, kind_of, plain, same
from workbench.exercises.exercise import EXERCISES, Grade, exercise
from workbench.exercises.grade import own_line
from workbench.scenario.resolution import resolve

HERON = "HERON_ATTN"
MODELS = ("qwen3.5-4b", "nemotron-3-nano-30b-a3b", "llama-3.1-8b")
NEWER = {"compute_capability": "10.0"}
LLAMA = {"model": "llama-3.1-8b"}
HERON_STEP = 80
REQUESTED = {"backend": HERON}
ADDRESS = re.compile(r"<function (\w+) at 0x\w+>")


KINDS = (
    (tuple, 'a tuple, for example (16, 32) or ("cuda",): a single entry has a comma after it'),
    (str, "text in quotes"),
    (bool, "True or False"),
    (Mapping, "a dictionary"),
    (FunctionType, "a function of the query, for example lambda query: query.major >= 9"),
)
"""Kind of a field's value -> how it is written."""


class Fact(NamedTuple):
    """A sentence of the data sheet, the field that states it, and scenarios that show it."""

    sentence: str
    field: str
    scenarios: tuple[Mapping[str, Any], ...]


FACTS = (
    Fact("Its name is HERON_ATTN.", "name", (REQUESTED,)),
    Fact("It runs on CUDA.", "platforms", (REQUESTED, {**REQUESTED, "platform": "rocm"})),
    Fact(
        "It needs compute capability 9.0 or later.",
        "capabilities",
        ({**REQUESTED, "compute_capability": "8.0"}, {**REQUESTED, **NEWER}),
    ),
    Fact(
        "Its kernel blocks are exactly 80 tokens, or any multiple of 128.",
        "supported",
        (
            *({**REQUESTED, "model": name} for name in MODELS),
            *({**REQUESTED, **LLAMA, "block_size": size} for size in (48, 80, 96, 128, 192, 640)),
            {**REQUESTED, "rules": "0.33"},
        ),
    ),
    Fact(
        "It has kernels for heads of 64, 128 and 256 elements.",
        "head_sizes",
        tuple(
            {**REQUESTED, **NEWER, "model": name}
            for name in ("llama-3.1-8b", "phi-3-mini-4k", "zamba2-7b", "gpt-oss-20b", "gemma-2-2b")
        ),
    ),
    Fact(
        "The KV cache is float16, bfloat16 or fp8 (e4m3), not e5m2 or nvfp4.",
        "kv_cache_dtypes",
        tuple(
            {**REQUESTED, **NEWER, "kv_cache_dtype": name}
            for name in ("float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4")
        ),
    ),
    Fact(
        "Attention sinks (GPT-OSS) work from compute capability 10.0 on.",
        "supports_sinks",
        ({**REQUESTED, "model": "gpt-oss-20b"}, {**REQUESTED, **NEWER, "model": "gpt-oss-20b"}),
    ),
    Fact(
        "Where it is valid, vLLM tries it before every other backend of CUDA: rank 5.",
        "ranks",
        ({}, NEWER, LLAMA, {"kv_cache_dtype": "fp8_e5m2"}, {"compute_capability": "8.0"}),
    ),
    Fact(
        "The cache of a layer is [blocks, K and V, tokens, KV heads, head size].",
        "cache",
        (REQUESTED, {**REQUESTED, **LLAMA}),
    ),
)
"""The data sheet; a fact is judged by plans of its scenarios, in this order."""


def _judge_blocks(answer: Any, _case: Any) -> Grade:
    found, wanted = plain(answer), heron_blocks()
    if not isinstance(found, tuple) or len(found) != len(wanted):
        expected = ("expected", f"{len(wanted)} numbers: {', '.join(MODELS)}")
        return Grade(False, "Not a list of block sizes.", (expected, ("got", repr(answer)[:200])))
    for model, got, right in zip(MODELS, found, wanted, strict=True):
        if not same(got, right):
            rows = (("model", model), ("got", described(got)), ("why", _reason(model, got, right)))
            return Grade(False, "A block size differs.", rows)
    return Grade(True, f"Right: blocks of {described(plain(wanted))} tokens.")


def _reason(model: str, got: Any, right: int) -> str:
    """Return why a predicted block is wrong; known mistakes first."""
    if not isinstance(got, int | float) or isinstance(got, bool):
        return f"a block size is a number of tokens; this is {kind_of(got)}"
    plan = resolve(model=model)
    state = (plan.mamba_page_size_bytes or 0) / (plan.attention_bytes_per_token or 1)
    if got == plan.block_size:
        return f"this is today's block, for {plan.backend}, which supports multiples of 16"
    if got == state:
        return "this is the state itself; a block is a whole number of kernel blocks"  # words: ok
    if got % HERON_STEP:
        return f"this is not a multiple of {HERON_STEP}, the smallest kernel block"
    if got < state:
        return "the state does not fit into this block: round up"
    return "it is " + ("too small" if got < right else "larger than it needs to be")


@exercise(8, "the block sizes that a backend gives", judge=_judge_blocks, is_value=True)
def heron_blocks() -> list[int]:
    """Return the block size of each model of MODELS under 0.23 with the new backend."""
    with trial(EXERCISES["heron_backend"].solution()()):
        return [resolve(model=model).block_size for model in MODELS]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a scenario comes to: its numbers, or why it does not start."""

    words: str
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return self.words if self.shape is None else f"{self.words}, cache shape {self.shape}"


def _judge(answer: Any, _case: Any) -> Grade:
    if not callable(answer):
        return Grade(False, "Expected a function that returns the record.")
    try:
        record = answer()
    except NotImplementedError:
        return Grade(None, "")
    except Exception as error:  # noqa: BLE001  (shown to the learner, whatever it is)
        came = ("got", f"{type(error).__name__}: {error}")
        return Grade(False, "The record cannot be built.", (came, *own_line(error, answer)))
    return _judge_record(record)


def _judge_record(record: Any) -> Grade:
    if record is None or record is Ellipsis:
        return Grade(None, "")
    if not isinstance(record, Backend):
        kinds = (("expected", "a wb.adding.Backend"), ("got", kind_of(record)))
        return Grade(False, "The function returns something other than a record.", kinds)
    right = EXERCISES["heron_backend"].solution()()
    if (fault := _wrong_kind(record, right)) is not None:
        return fault
    for number, fact in enumerate(FACTS):
        # one field at a time: a mistake in another one is not taken for this one's
        tried = replace(right, **{fact.field: getattr(record, fact.field)})
        for scenario in fact.scenarios:
            wanted, found = _outcome(right, fact, scenario), _outcome(tried, fact, scenario)
            if wanted != found:
                rows = [*_rows(fact, scenario, wanted, found), _look_at(record, fact.field)]
                said = f"{number} of {len(FACTS)} facts of the data sheet hold; this one does not."
                return Grade(False, said, tuple(rows))
    return _as_a_whole(record, right)


def _as_a_whole(record: Backend, right: Backend) -> Grade:
    """Return the grade of a record whose fields are right, unless it sets others as well."""
    known = {fact.field for fact in FACTS}
    for fact in FACTS:
        for scenario in fact.scenarios:
            wanted, found = _outcome(right, fact, scenario), _outcome(record, fact, scenario)
            if wanted != found:
                others = [
                    _look_at(record, field.name)
                    for field in fields(Backend)
                    if field.name not in known
                    and getattr(record, field.name) != getattr(right, field.name)
                ]
                rows = (*_rows(fact, scenario, wanted, found), *others)
                return Grade(False, "The record says more than the data sheet.", rows)
    count = sum(len(fact.scenarios) for fact in FACTS)
    return Grade(True, f"Right: {count} scenarios come to what the data sheet says.")


def _look_at(record: Backend, name: str) -> tuple[str, str]:
    value = getattr(record, name)
    shown = "a function" if isinstance(value, FunctionType) else ADDRESS.sub(r"\1", repr(value))
    return ("look at", f"the field `{name}`, now {shown[:120]}")


def _rows(
    fact: Fact, scenario: Mapping[str, Any], wanted: Outcome, found: Outcome
) -> tuple[tuple[str, str], ...]:
    values = {"model": MODELS[0], **scenario}
    return (
        ("data sheet", fact.sentence),
        ("given", ", ".join(f"{name} = {value}" for name, value in values.items())),
        ("expected", str(wanted)),
        ("got", str(found)),
    )


def _wrong_kind(record: Backend, right: Backend) -> Grade | None:
    """Return the grade of a field with a value of another kind: a text for a tuple."""
    for field in fields(Backend):
        found, wanted = getattr(record, field.name), getattr(right, field.name)
        expected = next((words for kind, words in KINDS if isinstance(wanted, kind)), "")
        matches = any(isinstance(found, kind) for kind, words in KINDS if words == expected)
        if not expected:
            matches = wanted is None or type(found) is type(wanted)
            expected = f"a wb.adding.{type(wanted).__name__}"
        if not matches:
            rows = (("field", field.name), ("expected", expected), ("got", repr(found)[:200]))
            return Grade(False, "A field holds a value of a type that is not declared.", rows)
    return None


def _outcome(record: Backend, fact: Fact, scenario: Mapping[str, Any]) -> Outcome:
    """Return what a scenario comes to while `record` is there; never raise for the record."""
    try:
        with trial(record):
            plan = resolve(**{"model": MODELS[0], **scenario})
            cache = plan.layout(num_blocks=3).attention if fact.field == "cache" else None
        return Outcome(_words(plan), None if cache is None else cache.shape)
    except WorkbenchError as error:
        return Outcome(f"refused: {error.message}")
    except Exception as error:  # noqa: BLE001  (shown to the learner, whatever it is)
        return Outcome(f"{type(error).__name__}: {error}")


def _words(plan: Plan) -> str:
    if plan.errors:
        return f"does not start: {plan.errors[0].message.partition(' Valid here')[0]}"
    return (
        f"{plan.backend}, block {plan.block_size:,} tokens, kernel block {plan.kernel_block_size}"
    )


@exercise(8, "a backend from its data sheet", judge=_judge)
def heron_backend() -> Backend:
    """Return the record of HERON_ATTN, as its data sheet has it."""
    found: Callable[[], Backend] = EXERCISES["heron_backend"].solution()
    return found()

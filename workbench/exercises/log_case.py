"""A start that failed, a fresh one for each seed: its log, and what the log doctor says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from random import Random
from typing import TYPE_CHECKING, Any

from workbench.core.arithmetic import GIB
from workbench.core.errors import Refused, ScenarioError, WorkbenchError, shown
from workbench.interop.exchange import explain_text
from workbench.interop.logs.written import start_log
from workbench.scenario import Scenario
from workbench.scenario.resolution import remedies_of_refusal, resolve
from workbench.views.html import document, tag

if TYPE_CHECKING:
    from workbench.core.plan import Plan
    from workbench.interop.logs.report import LogReport

MODELS = (
    *("qwen3.5-4b", "nemotron-3-nano-30b-a3b", "bamba-9b", "falcon-h1-7b"),
    *("qwen3-next-80b-a3b", "granite-4.0-h-small", "jamba-1.5-mini"),
)
FIXED = ("model", "rules", "platform", "device", "compute_capability")
"""Fields that a repair must not change: the model, the machine and the release."""
HANGING = "padding-left: 4ch; text-indent: -4ch; white-space: pre-wrap; overflow-wrap: anywhere"
"""A long line goes on below its own text, not below its number."""
LETTERS = "ABCD"
MOST_TRIES = 200

Provoke = Callable[[Random], dict[str, Any]]
FAULTS: Mapping[str, Provoke] = {
    "block_exceeds_token_budget": lambda random: {
        "enable_prefix_caching": True,
        "mamba_cache_mode": "align",
        "max_num_batched_tokens": random.choice((256, 512, 1024, 2048)),
    },
    "not_enough_memory": lambda random: {
        "kv_cache_memory_bytes": random.randrange(10, 90) * GIB // 100,
        "max_model_len": random.choice((32_768, 65_536, 131_072)),
    },
    "max_num_seqs_above_blocks": lambda random: {
        "kv_cache_memory_bytes": random.randrange(100, 600) * GIB // 100,
        "max_model_len": random.choice((2048, 4096, 8192)),
        "max_num_seqs": random.choice((512, 1024, 2048)),
    },
    "flex_block_not_power_of_2": lambda random: {
        "backend": "FLEX_ATTENTION",
        "max_model_len": random.choice((8192, 16_384)),
    },
    "heads_not_divisible": lambda random: {"tensor_parallel": random.choice((3, 5, 6, 7, 12))},
    "backend_not_valid": lambda random: {
        "backend": random.choice(("FLASHMLA", "FLASHINFER", "ROCM_ATTN", "TURBOQUANT")),
        "kv_cache_dtype": random.choice(("auto", "int8_per_token_head")),
    },
    "mamba_block_size_without_prefix_caching": lambda random: {
        "mamba_block_size": random.choice((64, 128, 256))
    },
    "max_model_len_too_long": lambda random: {
        "max_model_len": random.choice((500_000, 1_000_000, 2_000_000))
    },
}
"""Problem -> settings that may lead to it."""


@dataclass(frozen=True)
class LogCase:
    """One failed start; shows itself as its log with line numbers."""

    seed: int
    log: str
    code: str
    """The problem that ends it, as the rules name it."""

    @cached_property
    def report(self) -> LogReport:
        """Return what the log doctor says."""
        return explain_text(self.log)

    @property
    def line(self) -> int:
        """Return the number of the fatal line, from 1."""
        failure = self.report.failure
        assert failure is not None
        return failure.line

    @property
    def scenario(self) -> Scenario:
        """Return the scenario that the log describes."""
        return Scenario.from_dict(self.report.reading.fields)

    @property
    def meaning(self) -> str:
        """Return what the fatal line means."""
        return next(one.means for one in self.report.lines if one.line == self.line)

    @cached_property
    def statements(self) -> Mapping[str, str]:
        """Return letter -> what a fatal line may mean; one is right for this log."""
        random = Random(self.seed)  # noqa: S311
        others = sorted({_case(0, code).meaning for code in FAULTS} - {self.meaning})
        chosen = [self.meaning, *random.sample(others, len(LETTERS) - 1)]
        random.shuffle(chosen)
        return dict(zip(LETTERS, chosen, strict=True))

    @property
    def repairs(self) -> Iterator[dict[str, Any]]:
        """Yield changes of a single field, tried, with which the start succeeds; best first."""
        for changes in map(dict, _remedies(self.scenario)):
            if len(changes) == 1 and not set(changes) & set(FIXED):
                yield changes

    def __repr__(self) -> str:
        return "\n".join(f"{at:3} {line}" for at, line in enumerate(self.log.splitlines(), 1))

    def _repr_html_(self) -> str:
        lines = (tag("div", line, style=HANGING) for line in repr(self).splitlines())
        return document(tag("pre", *lines, style="white-space: normal"))


def outcome(scenario: Scenario) -> Plan | WorkbenchError:
    """Return the plan of a scenario, or why there is none."""
    try:
        return resolve(scenario)
    except WorkbenchError as error:
        return error


def _remedies(scenario: Scenario) -> Iterator[Mapping[str, Any]]:
    found = outcome(scenario)
    if isinstance(found, Refused):
        yield from (one.changes for one in remedies_of_refusal(scenario, found))
    elif not isinstance(found, WorkbenchError) and found.errors:
        yield from (one.changes for one in found.remedies(found.errors[0]))


def log_case(seed: int) -> LogCase:
    """Return a start-up log that ends with a fatal error; another one for each seed.

    seed: an integer from 0; successive seeds have different errors. Errors: ScenarioError for
    another seed.

    >>> wb.log_case(1).log.splitlines()[0]
    '(APIServer pid=14) INFO ... vLLM API server version 0.23.0'
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        message = f"Invalid seed {shown(seed)}. Expected an integer from 0, such as 1."
        raise ScenarioError("out_of_range", message, field="seed")
    return _case(seed, list(FAULTS)[seed % len(FAULTS)])


@cache
def _case(seed: int, code: str) -> LogCase:
    random = Random(seed)  # noqa: S311
    for _ in range(MOST_TRIES):
        scenario = Scenario(
            **{
                "model": random.choice(MODELS),
                "tensor_parallel": random.choice((1, 1, 2, 4)),
                **FAULTS[code](random),
            }
        )
        case = _failed(scenario, seed)
        if case is not None and case.code == code and _is_fair(case):
            return case
    raise AssertionError(f"no failed start with {code}")


def _failed(scenario: Scenario, seed: int) -> LogCase | None:
    """Return the case of a scenario whose start fails with a message of vLLM's; else None."""
    found = outcome(scenario)
    if isinstance(found, WorkbenchError):
        stated = isinstance(found, Refused) and found.vllm_text
        return LogCase(seed, start_log(scenario, found), found.code) if stated else None
    problem = next((one for one in found.errors if one.vllm_text), None)
    if problem is None:
        return None
    return LogCase(seed, start_log(scenario, problem, found), problem.code)


def _is_fair(case: LogCase) -> bool:
    """Return whether the log says everything that its error follows from, and can be repaired."""
    failure = case.report.failure
    reproduced = failure is not None and failure.problem == case.code
    return reproduced and next(case.repairs, None) is not None


def example_of(meaning: str) -> LogCase:
    """Return a case whose fatal line has this meaning, one of those of FAULTS."""
    return next(one for one in (_case(0, code) for code in FAULTS) if one.meaning == meaning)

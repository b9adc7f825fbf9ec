"""Query the vLLM of another Python: one process per platform, one line per question and answer.

vLLM is never imported here. The code that runs there is `workbench.verify.vllm_probe`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from workbench.access.app_mode import check_python
from workbench.core.batch_defaults import A100, USAGE_CONTEXTS
from workbench.core.capacity.blocks import given_bytes
from workbench.core.devices import device_of, driver_memory_of, platform_of
from workbench.core.errors import WorkbenchError
from workbench.core.model import Model
from workbench.core.platforms import capability_of, gfx_of
from workbench.interop.commands.vllm_args import vllm_args, vllm_environment
from workbench.scenario import Scenario
from workbench.scenario.fields import Settings

START_S = 180
"""Seconds for importing vLLM, on a slow disk too; QUESTION_S is added for each question."""
QUESTION_S = 60
BOOT = (
    "import sys; sys.path[:] = [*filter(None, sys.path), {folder!r}]; import vllm_probe; "
    "sys.path.remove({folder!r}); vllm_probe.main()"
)
"""The working folder, first on the path, is removed: its files must not be imported."""
QUOTED_LINES = 3


@dataclass(frozen=True)
class Host:
    """The machine and the environment that one process simulates.

    capability: None outside CUDA. gfx: empty outside ROCm.
    """

    platform: str
    capability: tuple[int, int] | None = None
    gfx: str = ""
    trtllm_kernels: bool = False
    batch_invariant: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Host:
        """Return the host that a scenario describes."""
        switches = settings.trtllm_kernels, settings.batch_invariant
        return cls(platform_of(settings), capability_of(settings), gfx_of(settings), *switches)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one question, as the process writes it: answered, refused, or failed.

    answers: field -> vLLM's value, including those before a refusal. functions: what was called.
    unanswered: field -> why vLLM could not answer. refusal: {"by", "type", "message"}.
    failure: why vLLM answered nothing.
    """

    answers: Mapping[str, Any] = field(default_factory=dict)
    functions: Sequence[str] = ()
    unanswered: Mapping[str, str] = field(default_factory=dict)
    refusal: Mapping[str, str] | None = None
    failure: str | None = None


@dataclass(frozen=True)
class Installation:
    """The vLLM that answered, as the process writes it, and the stand-ins for what is missing."""

    version: str
    torch: str = ""
    transformers: str = ""
    python: str = ""
    platform_class: str = ""
    stand_ins: Mapping[str, str] = field(default_factory=dict)


class CannotVerifyError(WorkbenchError):
    """vLLM cannot answer: the Python, its vLLM, or a package that vLLM needs is missing."""


def question(
    scenario: Scenario,
    model: Model,
    config: Mapping[str, Any],
    draft_config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the question for vLLM about one scenario: its command, its machine, its config.json.

    draft_config: of the second checkpoint, None without one.

    ranks_bytes: the memory that every rank has for the cache, None while it is unknown.
    """
    _, *words = vllm_args(scenario, model)
    return {
        "words": words,
        "environment": vllm_environment(scenario),
        "usage_context": USAGE_CONTEXTS[scenario.entry_point],
        # Without a known memory size the device counts as small, as when vLLM cannot query it.
        "device_memory_bytes": driver_memory_of(scenario) or 0,
        "device_name": _device_name(scenario),
        "ranks_bytes": list(given_bytes(scenario)) or None,
        "config": dict(config),
        "draft_config": None if draft_config is None else dict(draft_config),
    }


def _device_name(settings: Settings) -> str | None:
    """Return the name that vLLM reads; that of an A100, unless a device is named, for 8.0."""
    device = device_of(settings)
    if device is not None:
        return device.title
    return "NVIDIA A100" if capability_of(settings) == A100.capability else None


def query(
    python: str | None, host: Host, questions: Sequence[Mapping[str, Any]]
) -> tuple[Installation, tuple[Outcome, ...]]:
    """Return the answers to `questions`, in order, from one process of `python` (None: this one).

    A question whose process crashed or took too long gives a failure; so do those after it.
    Errors: CannotVerifyError if not even its version is available; AppRefusal.
    """
    if python is not None:
        check_python(python)
    program = python or sys.executable
    boot = BOOT.format(folder=str(Path(__file__).parent))
    command = [program, "-c", boot, json.dumps(asdict(host))]
    lines = "".join(json.dumps({"id": at, **given}) + "\n" for at, given in enumerate(questions))
    limit_s = START_S + QUESTION_S * len(questions)
    try:
        done = subprocess.run(
            command,
            input=lines.encode(),
            capture_output=True,
            timeout=limit_s,
            check=False,
            # A checkout on this path would hide packages of vLLM's own, such as `kernels`.
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )
    except OSError as error:
        raise CannotVerifyError(
            "python_not_found",
            f"{program} cannot be started ({error.strerror}). Name the Python of an environment "
            "that has vLLM, for example --python ~/vllm/bin/python.",
            field="python",
        ) from None
    except subprocess.TimeoutExpired as expired:
        why = f"no answer within {limit_s} s"
        return _read(expired.stdout or b"", len(questions), why, program)
    why = f"the process ended with status {done.returncode}"
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-QUOTED_LINES:]
        why += f": {' | '.join(map(str.strip, last))}"
    return _read(done.stdout, len(questions), why, program)


def _read(
    output: bytes, count: int, why: str, program: str
) -> tuple[Installation, tuple[Outcome, ...]]:
    messages: list[dict[str, Any]] = []
    with suppress(ValueError):  # a process that was stopped may leave half a line
        messages.extend(json.loads(line) for line in output.splitlines())
    hello = messages.pop(0) if messages else {}
    if "version" not in hello:
        raise CannotVerifyError(
            "vllm_not_importable",
            f"The vLLM of {program} does not answer: {hello.get('failure', why)}. "
            "Install it there, or name another environment's Python with --python; "
            "tools/vllm_environment.py makes one that needs no GPU.",
            field="python",
        )
    given: dict[int, Outcome] = {}
    for message in messages:
        hello["stand_ins"] |= message.pop("stand_ins", {})
        at = message.pop("id")
        given[at] = Outcome(**message)
    return Installation(**hello), tuple(given.get(at, Outcome(failure=why)) for at in range(count))

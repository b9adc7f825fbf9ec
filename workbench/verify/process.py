"""Query the vLLM of another Python: one process per platform, one line per question and answer.

vLLM is never imported here. The code that runs there is `workbench.verify.vllm_probe`.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from workbench.access.app_mode import check_python
from workbench.access.files import reason_of
from workbench.core.batch_defaults import A100, USAGE_CONTEXTS
from workbench.core.capacity.blocks import given_bytes
from workbench.core.devices import device_of, driver_memory_of, platform_of
from workbench.core.errors import WorkbenchError, cut
from workbench.core.model import Model
from workbench.core.platforms import capability_of, gfx_of
from workbench.interop.commands.vllm_args import vllm_environment, words_of
from workbench.scenario import Scenario
from workbench.scenario.fields import Settings

LIMIT_S = 180
"""Seconds for importing vLLM, on a slow disk too, and for one answer."""
BOOT = (
    "import sys; sys.path[:] = [*filter(None, sys.path), {folder!r}]; import vllm_probe; "
    "sys.path.remove({folder!r}); vllm_probe.main()"
)
"""The working folder, first on the path, is removed: its files must not be imported."""
QUOTED_LINES = 3


@dataclass(frozen=True)
class Host:
    """The machine and the environment that one process simulates."""

    platform: str
    capability: tuple[int, int] | None = None
    """None outside CUDA."""
    gfx: str = ""
    """Empty outside ROCm."""
    trtllm_kernels: bool = False
    batch_invariant: bool = False
    rocm_aiter: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Host:
        """Return the host that a scenario describes."""
        return cls(
            platform=platform_of(settings),
            capability=capability_of(settings),
            gfx=gfx_of(settings),
            trtllm_kernels=settings.trtllm_kernels,
            batch_invariant=settings.batch_invariant,
            rocm_aiter=settings.rocm_aiter,
        )


@dataclass(frozen=True)
class Outcome:
    """The outcome of one question, as the process writes it: answered, refused, or failed.

    answers: field -> vLLM's value, including those before a refusal. functions: what was called.
    unanswered: field -> why vLLM could not answer. refusal: {"by", "type", "message", "place"}.
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
    stand_ins: dict[str, str] = field(default_factory=dict)


class CannotVerifyError(WorkbenchError):
    """vLLM cannot answer: the Python, its vLLM, or a package that vLLM needs is missing."""


def question(
    scenario: Scenario,
    model: Model | None,
    config: Mapping[str, Any],
    draft_config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the question for vLLM about one scenario: its command, its machine, its config.json.

    model: None if there is no reader for it: then nothing may be drafted. draft_config: of the
    second checkpoint, None without one.

    ranks_bytes: the memory that every rank has for the cache, None while it is unknown.
    """
    return {
        "words": words_of(scenario, model),
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


class VllmProcess:
    """One process of an installed vLLM that simulates one machine: a question, then its answer.

    installed: what answers, with the stand-ins so far. A process that crashed, or took too long
    and was stopped, is started again for the next question.
    Errors: CannotVerifyError if not even its version is available; AppRefusal.
    """

    def __init__(self, python: str | None, host: Host) -> None:
        if python is not None:
            check_python(python)
        self.program = python or sys.executable
        boot = BOOT.format(folder=str(Path(__file__).parent))
        self._command = [self.program, "-c", boot, json.dumps(asdict(host))]
        self._ids = itertools.count()
        self.installed = self._started()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._end()

    def ask(self, question: Mapping[str, Any]) -> Outcome:
        """Return the answer; a failure where the process crashed or took too long."""
        if self._process.poll() is not None:
            self._end()
            self._started()
        message = self._received({"id": next(self._ids), **question})
        if message is None:
            return Outcome(failure=self._why())
        self.installed.stand_ins.update(message.pop("stand_ins", {}))
        del message["id"]
        return Outcome(**message)

    def _started(self) -> Installation:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        # Not the process's own: it is killed, and removes nothing.
        self._folder = tempfile.TemporaryDirectory(
            prefix="workbench-vllm-", ignore_cleanup_errors=True
        )
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                # A checkout on this path would hide packages of vLLM's own, such as `kernels`.
                env={
                    **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                    "TMPDIR": self._folder.name,
                },
            )
        except (OSError, ValueError) as error:  # ValueError: a null character, a lone surrogate
            self._close_files()
            raise CannotVerifyError(
                "python_not_found",
                f"{cut(self.program)} cannot be started ({reason_of(error)}). Name the Python of "
                "an environment that has vLLM, for example --python ~/vllm/bin/python.",
                field="python",
            ) from None
        hello = self._received() or {}
        if "version" not in hello:
            why = hello.get("failure") or self._why()
            self._end()
            raise CannotVerifyError(
                "vllm_not_importable",
                f"The vLLM of {cut(self.program)} does not answer: {why}. Install it there, or "
                "name another environment's Python with --python; tools/vllm_environment.py makes "
                "one that needs no GPU.",
                field="python",
            )
        return Installation(**hello)

    def _end(self) -> None:
        self._process.kill()
        with suppress(OSError):  # half a question may be left
            self._process.communicate()
        self._close_files()

    def _close_files(self) -> None:
        self._errors.close()
        self._folder.cleanup()

    def _received(self, question: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the next message, to this question if there is one; None if none comes."""
        self._is_late = threading.Event()
        timer = threading.Timer(LIMIT_S, self._stop)
        timer.start()
        try:
            return self._exchanged(question)
        except (OSError, ValueError):  # a process that was stopped may leave half a line
            return None
        finally:
            timer.cancel()

    def _exchanged(self, question: Mapping[str, Any] | None) -> dict[str, Any] | None:
        source, target = self._process.stdout, self._process.stdin
        assert source is not None
        assert target is not None
        if question is not None:
            target.write(json.dumps(question).encode() + b"\n")
            target.flush()
        for line in source:
            message: dict[str, Any] = json.loads(line)
            if question is None or message.get("id") == question["id"]:
                return message
        return None

    def _stop(self) -> None:
        self._is_late.set()
        self._process.kill()

    def _why(self) -> str:
        """Return why there is no answer, with the last lines that the process printed."""
        status = self._process.wait()
        if self._is_late.is_set():
            return f"no answer within {LIMIT_S} s"
        self._errors.seek(0)
        last = self._errors.read().decode("utf-8", "replace").strip().splitlines()[-QUOTED_LINES:]
        return f"the process ended with status {status}: {' | '.join(map(str.strip, last))}"


def query(
    python: str | None, host: Host, questions: Iterable[Mapping[str, Any]]
) -> tuple[Installation, tuple[Outcome, ...]]:
    """Return the answers to `questions`, in order, from one process of `python` (None: this one).

    Errors: as for VllmProcess.
    """
    with VllmProcess(python, host) as process:
        return process.installed, tuple(process.ask(one) for one in questions)

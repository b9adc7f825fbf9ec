"""Code that another environment's Python runs: it calls the vLLM installed there, answers in JSON.

Needs that Python, its vLLM and torch, and nothing of ours: relative imports only. One process
simulates one platform: one question per line on standard input, one answer per line on standard
output. The first output line gives the version of vLLM and the stand-ins for what is missing here.
No code of vLLM is copied: every number comes from a call of its own code.
"""

import json
import os
import sys
from contextlib import suppress
from typing import IO, Any


def _reply(channel: IO[str], message: dict[str, Any]) -> None:
    channel.write(json.dumps(message) + "\n")
    channel.flush()


MEMORY_BYTES = 8 * 2**30
"""What this process may take. Models have no weights here: one that needs more is not answered."""


def main() -> None:
    """Answer every line of standard input; the first argument is the platform, as JSON."""
    with suppress(ImportError):  # there is no such limit on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    # vLLM prints to standard output: redirect that to standard error.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    host = json.loads(sys.argv[1])
    try:
        from .machine import CannotAnswer, play

        machine = play(host)
        from .answers import answer
    except Exception as error:  # noqa: BLE001  (missing parts of the environment are reported)
        _reply(channel, {"failure": f"{type(error).__name__}: {error}"})
        return
    _reply(channel, machine.describe())
    for line in sys.stdin:
        question = json.loads(line)
        try:
            given = answer(question, machine)
        except CannotAnswer as error:
            given = {"failure": str(error)}
        except Exception as error:  # noqa: BLE001  (one question that fails must not end the rest)
            given = {"failure": f"{type(error).__name__}: {error}"}
        _reply(channel, {"id": question["id"], **given, "stand_ins": machine.news()})

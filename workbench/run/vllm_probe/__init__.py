"""What another environment's Python runs: it asks the vLLM installed there, and answers in JSON.

Needs that Python, its vLLM and torch, and nothing of ours: relative imports only. One process plays
one platform. A question a line on standard input, an answer a line on standard output, after a
first line that says which vLLM this is and what stands in for what is missing here. Nothing of
vLLM is copied: every number comes out of a call of its own code.
"""

from __future__ import annotations

import json
import os
import sys
from typing import IO, Any


def _reply(channel: IO[str], message: dict[str, Any]) -> None:
    channel.write(json.dumps(message) + "\n")
    channel.flush()


def main() -> None:
    """Answer every line of standard input; the platform to play is the first argument, as JSON."""
    # vLLM prints to standard output: what it prints goes where errors go.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    host = json.loads(sys.argv[1])
    try:
        from .machine import CannotAsk, play

        machine = play(host)
        from .answers import answer
    except Exception as error:  # noqa: BLE001  (whatever another environment lacks is reported)
        _reply(channel, {"failed": f"{type(error).__name__}: {error}"})
        return
    _reply(channel, {"hello": machine.describe()})
    for line in sys.stdin:
        question = json.loads(line)
        try:
            given = answer(question, machine)
        except CannotAsk as error:
            given = {"failed": str(error)}
        except Exception as error:  # noqa: BLE001  (one question that fails must not end the rest)
            given = {"failed": f"{type(error).__name__}: {error}"}
        _reply(channel, {"id": question["id"], **given, "stand_ins": machine.news()})

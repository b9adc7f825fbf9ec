"""Runs commands one after the other, each with a limit of time and all with one of memory.

stdin: JSON list of argument lists; stdout: JSON list of {"exit", "raised", "output"}.
"""

from __future__ import annotations

import json
import resource
import signal
import sys

from tests.commands import run

SECONDS = 10
ADDRESS_SPACE = 6 * 2**30


class TookTooLong(BaseException):
    """Not an Exception: no command may swallow it."""


def ring(_signal, _frame):
    raise TookTooLong


def outcome(arguments):
    signal.alarm(SECONDS)
    try:
        result = run(*arguments)
    except TookTooLong:
        return {"exit": None, "raised": "TookTooLong", "output": ""}
    finally:
        signal.alarm(0)
    raised = result.exception
    if isinstance(raised, SystemExit):
        raised = None
    name = type(raised).__name__ if raised else None
    return {"exit": result.exit_code, "raised": name, "output": result.output[:4000]}


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, ring)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    outcomes = [outcome(arguments) for arguments in json.load(sys.stdin)]
    sys.stdout.write(json.dumps(outcomes))

"""Grade a learner's function over the hidden inputs, or a value against the one answer.

What an answer may compute is limited: an endless loop becomes an error with its line.
"""

import inspect
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from workbench.exercises.compare import described, difference, kind_of, plain, same
from workbench.exercises.exercise import Exercise, Grade


def grade(exercise: Exercise, answer: Any, case: Any = None) -> Grade:
    """Return the grade of `answer`, about `case` if the exercise has cases; never raise for it."""
    try:
        with limited(MOST_SECONDS):
            return _graded(exercise, answer, case)
    except TimeoutError as error:  # it ran out between two inputs
        return Grade(False, "It takes too long.", (("got", str(error)),))


def _graded(exercise: Exercise, answer: Any, case: Any) -> Grade:
    if answer is None or answer is Ellipsis:
        return _not_answered(exercise)
    if exercise.judge is not None:
        judged = exercise.judge(answer, case)
        return _not_answered(exercise) if judged.ok is None else judged
    if exercise.is_question:
        return _value(exercise, answer)
    if not callable(answer):
        wanted = f"a function of ({', '.join(exercise.parameters)})"
        found = f"{kind_of(plain(answer))}, not a function"
        return Grade(False, f"Expected: {wanted}.", (("got", found),))
    return _signature_fault(exercise, answer) or _function(exercise, answer)


def _not_answered(exercise: Exercise) -> Grade:
    what = "None by your answer" if exercise.is_question else "the body of the function"
    return Grade(None, f"Not answered yet: {exercise.title}. Replace {what}, and run the cell.")


def _value(exercise: Exercise, answer: Any) -> Grade:
    wanted, found = plain(exercise.oracle()), plain(answer)
    if same(found, wanted, unordered=exercise.unordered):
        return Grade(True, f"Right: {exercise.title}: {described(wanted)}.")
    rows = (("expected", f"{kind_of(wanted)}, other than yours"), ("got", described(found)))
    if kind_of(found) != kind_of(wanted):
        rows = (("expected", kind_of(wanted)), ("got", f"{described(found)}: {kind_of(found)}"))
    return Grade(False, "Not it yet.", rows)


def _signature_fault(exercise: Exercise, answer: Callable[..., Any]) -> Grade | None:
    try:
        found = inspect.signature(answer)
    except (TypeError, ValueError):
        return None  # built-in functions have no signature: they are simply called
    try:
        found.bind(*exercise.parameters)
    except TypeError as error:
        wanted = ("expected", f"a function of ({', '.join(exercise.parameters)})")
        came = ("got", f"({', '.join(found.parameters)}): {error}")
        why = "It cannot be called with the parameters of the specification."
        return Grade(False, why, (wanted, came))
    return None


def _function(exercise: Exercise, answer: Callable[..., Any]) -> Grade:
    hidden = exercise.hidden()
    for number, operands in enumerate(hidden):
        wanted = plain(exercise.oracle(**deepcopy(dict(operands))))
        given = ("given", ", ".join(f"{name} = {_shown(one)}" for name, one in operands.items()))
        try:
            found = plain(answer(*operands.values()))
        except NotImplementedError:
            return _not_answered(exercise)
        except Exception as error:  # noqa: BLE001  (shown to the learner, whatever it is)
            came = ("got", f"{type(error).__name__}: {error}")
            rows = (given, ("expected", described(wanted)), came, *own_line(error, answer))
            return Grade(False, f"It fails on input {number + 1} of {len(hidden)}.", rows)
        if same(found, wanted, unordered=exercise.unordered):
            continue
        if found is None or found is Ellipsis:
            if number == 0:
                return _not_answered(exercise)
            found = "None: is a return missing?"
        differs = difference(found, wanted, unordered=exercise.unordered)
        came = ("got", described(found) + (f" ({differs})" if differs else ""))
        summary = f"Right on {number} of {len(hidden)} hidden inputs; the next one differs."
        if number == 0:
            summary = f"The first of {len(hidden)} hidden inputs differs."
        return Grade(False, summary, (given, ("expected", described(wanted)), came))
    return Grade(True, f"Right on all {len(hidden)} hidden inputs: {exercise.title}.")


def _shown(value: Any) -> str:
    return str(value) if callable(value) or hasattr(value, "__next__") else described(value)


def own_line(error: BaseException, answer: Callable[..., Any]) -> tuple[tuple[str, str], ...]:
    """Return the last line of the learner's own file, cell or shell in the traceback."""
    answer = getattr(answer, "fn", answer)  # what Triton's decorator wraps
    code = getattr(answer, "__code__", None) or getattr(type(answer).__call__, "__code__", None)
    own = code.co_filename if code is not None else None
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == own]
    if not lines:
        return ()
    return (("your line", f"{lines[-1].lineno}: {lines[-1].line}".removesuffix(": ")),)


MOST_SECONDS = 60.0
"""Of computing, not of waiting: a busy machine does not shorten it. Answers take a few at most."""
AGAIN_SECONDS = 1.0
"""Until it is raised again, for a loop that catches every error."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the answer after so many seconds of computing.

    Only the main thread can be interrupted, and not on Windows: without a limit otherwise.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        yield
        return

    def stop(_number: int, _frame: object) -> None:
        raise TimeoutError(f"no end after {seconds:g} seconds of computing: an endless loop?")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)

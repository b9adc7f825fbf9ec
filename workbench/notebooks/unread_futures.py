"""Inside the kernel: errors of futures that no code reads. Standard library only, as the guard."""

from collections.abc import Callable
from concurrent.futures import Future
from functools import wraps
from typing import Any

_unread: dict[int, tuple[Future[Any], BaseException]] = {}
"""Failed futures by identity, each with its error, that no code has read."""


def watch() -> None:
    """Remember the errors of futures, such as those of a pool, until code reads them."""
    set_exception = Future.set_exception

    def remember(future: Future[Any], error: BaseException | None) -> None:
        if error is not None:
            _unread[id(future)] = (future, error)  # first: a waiting thread reads it at once
        set_exception(future, error)

    Future.set_exception = remember  # type: ignore[method-assign,assignment]
    Future.result = _reading(Future.result)  # type: ignore[method-assign]
    Future.exception = _reading(Future.exception)  # type: ignore[method-assign]


def _reading(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def read(future: Future[Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return original(future, *args, **kwargs)
        finally:
            if future.done():
                _unread.pop(id(future), None)

    return read


def errors() -> list[BaseException]:
    """Return the errors that no code has read."""
    return [error for _future, error in tuple(_unread.values())]

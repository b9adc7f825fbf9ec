"""Triton's interpreter, without the work that it repeats for every call inside a kernel.

A launch replaces the functions of `triton.language` by those of the interpreter, and puts them
back at its end. Every function that a kernel calls does the same again, although nothing is left
to replace: it looks at each of their names, which took a third of the time of our kernels.

And with the numpy of today: that of Triton 3.6 makes a number of an array of one, which numpy from
2.4 on refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


class _NothingReplaced:
    """The record of nothing that was replaced."""

    def restore(self) -> None:
        """Put nothing back."""


def replace_once() -> None:
    """Let functions that a kernel calls leave `triton.language` as the launch has replaced it.

    Changes a private function of Triton, and nothing where there is none of that name: the results
    are the same either way.
    """
    from triton import language
    from triton.runtime import interpreter

    replace: Callable[[Any], Any] | None = getattr(interpreter, "_patch_lang", None)
    if replace is None or getattr(replace, "once", False):
        return
    is_builtin = language.core.is_builtin

    @cache
    def languages(function: Any) -> tuple[Any, ...]:
        """Return what it calls the language: Triton's own library reads `language.core`."""
        held = [id(value) for value in function.__globals__.values()]
        return tuple(one for one in (language, language.core) if id(one) in held)

    def is_replaced(one: Any) -> bool:
        return not (is_builtin(one.load) or is_builtin(one.tensor.__add__))

    def replaced(function: Any) -> Any:
        found = languages(function)
        return _NothingReplaced() if found and all(map(is_replaced, found)) else replace(function)

    replaced.once = True  # type: ignore[attr-defined]
    interpreter._patch_lang = replaced  # noqa: SLF001
    replace_tensor = interpreter._patch_lang_tensor  # noqa: SLF001

    def replaced_tensor(tensor: Any, scope: Any) -> None:
        replace_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = replaced_tensor  # noqa: SLF001

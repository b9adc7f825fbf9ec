"""The error of everything that lays out a cache: ours to act on, vLLM's to recognise."""

from collections.abc import Collection, Mapping
from typing import Any

from workbench.core.arithmetic import LARGEST_INT64
from workbench.core.errors import WorkbenchError, shown, unknown_name_message
from workbench.core.problems import declared, problem_texts


class LayoutError(WorkbenchError):
    """A cache cannot be laid out like this.

    vllm_exception, vllm_text: the exception that vLLM raises at the same place and its message,
    which may be empty; both None where the workbench alone refuses the input.

    >>> plan.layout(num_blocks=0)
    Traceback (most recent call last):
    workbench.core.layouts.error.LayoutError: Invalid num_blocks 0. ...
    """

    def __init__(
        self, code: str, message: str, *, vllm_exception: str | None = None, **details: Any
    ) -> None:
        super().__init__(code, message, **details)
        self.vllm_exception = vllm_exception

    def to_dict(self) -> dict[str, Any]:
        """Return the published form, with vLLM's exception and message."""
        said = {"vllm_exception": self.vllm_exception, "vllm_text": self.vllm_text}
        return {**super().to_dict(), **said}


def layout_error(
    code: str, operands: Mapping[str, Any] | None = None, *, variant: str = "", **words: Any
) -> LayoutError:
    """Return the error that problems.json declares; `vllm_exception` is there, too."""
    found = declared(code, None, operands, variant=variant, **words)
    exception = problem_texts()[f"{code} {variant}".rstrip()].get("vllm_exception")
    parts = {name: found[name] for name in ("field", "operands", "vllm_text")}
    return LayoutError(code, found["message"], vllm_exception=exception, **parts)


def require_known(what: str, name: object, allowed: Collection[str], field: str) -> None:
    """Raise LayoutError, with the nearest names, unless `name` is one of `allowed`."""
    if name not in allowed:
        code = f"unknown_{what.replace(' ', '_')}"
        message = unknown_name_message(what, name, allowed)
        raise LayoutError(code, message, field=field, operands={"allowed": tuple(allowed)})


def require_index(field: str, number: object, count: int) -> None:
    """Raise LayoutError, with the nearest valid number, unless `number` counts one of `count`."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
        nearest = 0 if not isinstance(number, int) or number < 0 else count - 1
        raise LayoutError(
            "index_outside",
            f"{field} = {shown(number)} does not exist: there are {count:,}, counted from 0. "
            f"Nearest valid: {nearest}.",
            field=field,
            operands={"index": number, "size": count},
        )


def require_positive(value: int, field: str, unit: str) -> None:
    """Raise LayoutError unless `value` is an integer from 1 to the largest one of torch."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if is_integer and 1 <= value <= LARGEST_INT64:
        return
    is_large = is_integer and value > 1
    nearest = LARGEST_INT64 if is_large else 1
    allowed = f"most {nearest:,}, torch's largest" if is_large else f"least 1 {unit}"
    raise LayoutError(
        "out_of_range" if is_large else "not_positive",
        f"Invalid {field} {shown(value)}. Expected an integer of at {allowed}. "
        f"Nearest valid value: {nearest}.",
        field=field,
        operands={field: shown(value) if is_large else value},
    )

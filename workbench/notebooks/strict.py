"""Read a TOML or JSON file into a strict form, with every mistake named in one message."""

import re
import tomllib
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from workbench.access.files import FileUse, read_text
from workbench.access.json_text import parse_json
from workbench.core.errors import cut, nearest_names, shown

MOST_NAMED = 5
"""Mistakes of a file that are named."""
DEEP_KEY = re.compile(r"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){64}""")
"""A key of many parts, for which tomllib takes the square of their number."""


class Strict(BaseModel):
    """Allows only declared fields, and no conversion from text to number."""

    PLACE: ClassVar[str] = ""
    """Where a file has this form, for messages; empty for a whole file."""
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Form = TypeVar("Form", bound=Strict)


def read_strict(path: Path, use: FileUse, form: type[Form]) -> Form:
    """Return the file's content. Raises FileError, and ValueError that says what is wrong."""
    text = read_text(path, use)
    try:
        document = _toml(text) if path.suffix == ".toml" else parse_json(text)
    except (ValueError, RecursionError) as error:
        language = "TOML" if path.suffix == ".toml" else "JSON (a TOML file ends with .toml)"
        raise ValueError(f"it is not {language}: {error}") from error
    try:
        return form.model_validate(document)
    except ValidationError as error:
        mistakes = error.errors()
        more = [f"and {len(mistakes) - MOST_NAMED:,} more"] if len(mistakes) > MOST_NAMED else []
        raise ValueError("; ".join([*map(_mistake, mistakes[:MOST_NAMED]), *more])) from error


def _toml(text: str) -> dict[str, Any]:
    if DEEP_KEY.search(text):
        raise ValueError("a key has more than 64 parts")
    return tomllib.loads(text)


def _mistake(mistake: Any) -> str:
    """Return where a mistake is, the value, and what is allowed."""
    where = cut(".".join(map(str, mistake["loc"]))) or "the top"
    match mistake["type"]:
        case "extra_forbidden":
            forms = Strict.__subclasses__()
            fields = {name for form in forms for name in form.model_fields}
            name = cut(str(mistake["loc"][-1]))
            if places := [form.PLACE for form in forms if name in form.model_fields and form.PLACE]:
                return f"{where} is not a field here; {name} is a field of {' and '.join(places)}"
            near = nearest_names(name, fields, count=1)
            return f"{where} is not a field" + (f"; nearest: {near[0]}" if near else "")
        case "missing":
            return f"{where} is missing"
        case "value_error":
            return f"{where}: {mistake['ctx']['error']}"
        case _:
            return f"{where} is {shown(mistake['input'])}: {mistake['msg']}"

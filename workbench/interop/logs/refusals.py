"""What vLLM says where it refuses a configuration, as the rules declare it in problems.json.

Looked for in a text that has no other known message: many of these are short.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from workbench.core.problems import WARNING, problem_texts
from workbench.interop.logs.message import Message
from workbench.scenario import FIELDS

PLACE = re.compile(r"\{[^}]*\}|%s")
"""A value in a text."""
VALUE = ".{1,200}?"
SPACES = re.compile(r"(?:\\ )+")
LITERAL = 20
"""Fewest characters between two values by which a text differs from others."""
OF_LIBRARIES = re.compile(
    r"index out of range|modulo by zero|for input of size|invalid literal|bounds for storage|"
    r"element sizes|has no attribute|unexpected keyword"
)
"""Words of Python and torch, which stop many programs."""


@cache
def refusal_messages() -> tuple[Message, ...]:
    """Return a message per declared text that others do not have."""
    # Variants of one refusal have one text.
    return tuple({one.begins: one for one in reversed([*_messages()])}.values())


def _messages() -> Iterator[Message]:
    for name, declared in problem_texts().items():
        text = (declared.get("vllm_text") or "").strip()
        literal = PLACE.split(text)
        begins = max(literal, key=len).strip()
        is_clear = len(begins) >= LITERAL and not OF_LIBRARIES.search(text)
        if is_clear and declared.get("severity") != WARNING:
            pattern = SPACES.sub(r"\\s++", VALUE.join(map(re.escape, literal)))
            # Any character may end a value at the beginning, which a search need not read.
            pattern = "." + pattern.removeprefix(VALUE) if pattern.startswith(VALUE) else pattern
            yield Message(
                name=name,
                begins=begins,
                pattern=re.compile(pattern),
                means=_means(declared),
                codes=(name.partition(" ")[0],),
                is_fatal=True,
                is_distinct=False,
            )


def _means(declared: Mapping[str, Any]) -> str:
    """Return which field it is about, and the sentences that hold for every configuration."""
    message, field = declared.get("message") or "", FIELDS.get(declared.get("field") or "")
    ends = [0, *(found.end() for found in re.finditer(r"\. (?=[A-Z-])|$", message))]
    sentences = (message[start:end].strip() for start, end in pairwise(ends))
    known = " ".join(one for one in sentences if one and not PLACE.search(one))
    first = f": look at {field.label} first" if field else ""
    return f"vLLM refuses the configuration{first}. {known}".strip()

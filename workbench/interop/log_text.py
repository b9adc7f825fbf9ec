"""The text of a log: bytes to lines, without colours and without what stands before a message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from workbench.core.errors import ScenarioError

MAX_LOG_BYTES = 256 * 2**20
PROBE = 65_536
SHOWN = 220
JOINED_LINES = 4
"""A terminal or a chat wraps one message into at most this many lines."""
MAX_TOLD = 40
"""One message is explained at most this often with different numbers; ranks repeat each other."""

COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|(?:\^\[)?\[\d{1,3}(?:;\d{1,3})*m")
PREFIXES = re.compile(
    r"""\s*(?:
        \([A-Za-z_][\w.]*(?:\s+(?:pid|ip)=[^)]*)\)      # (EngineCore pid=12), Ray's (Worker pid=1)
      | [\w.-]+\s+\|                                    # docker compose: vllm-1  |
      | \d{4}-\d\d-\d\dT[\d:.]+Z?                       # kubectl --timestamps
      | \w{3,4}\.?\s+\d{1,2}\s[\d:]{8}\s\S+\s\S+\[\d+\]:  # journald
      | (?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b
      | \d\d-\d\d\s[\d:]{8}
      | \d{4}-\d\d-\d\d[\sT][\d:]{8}(?:[.,]\d+)?
      | \[[\w.]+\.py:\d+\]
      | [\w.]+\.py:\d+\]
      | \[repeated\ \d+x\ across\ cluster\]
    )\s*""",
    re.VERBOSE,
)
ENGINES = {
    "SGLang": ("sglang", "server_args=ServerArgs(", "[TP0] Load weight"),
    "llama.cpp": ("llama_model_loader", "llama_kv_cache", "llm_load_print_meta"),
    "TensorRT-LLM": ("[TensorRT-LLM]", "[TRT-LLM]", "tensorrt_llm"),
    "Text Generation Inference": ("text_generation_launcher", "text-generation-server"),
    "LMDeploy": ("lmdeploy", "[TM][INFO]"),
    "Ollama": ("ollama", 'msg="llama runner'),
}
"""Another engine -> what its logs contain."""


class Line(NamedTuple):
    """One line as it was pasted: its number from 1, and its text without colours."""

    number: int
    text: str


def decoded(data: bytes) -> str:
    """The text in the bytes of a log file: UTF-8, or UTF-16 where it begins with its mark.

    Errors: ScenarioError for binary data and for more than 256 MiB.
    """
    if len(data) > MAX_LOG_BYTES:
        raise ScenarioError(
            "out_of_range",
            f"A log of more than {MAX_LOG_BYTES >> 20} MiB is not read. Its start is "
            "enough: `head -c 20M FILE | workbench explain-log -`.",
            field="log",
        )
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data[:PROBE]:
        raise _binary()
    return data.decode("utf-8-sig", errors="replace")


def lines_of(text: str) -> list[Line]:
    """The lines, without colours. Errors: ScenarioError for an empty or a binary text."""
    if "\0" in text[:PROBE]:
        raise _binary()
    if not text.strip():
        raise ScenarioError(
            "log_empty",
            "There is nothing to explain: paste the lines that vLLM printed while it started, from "
            "`non-default args` to `Maximum concurrency` or to the error.",
            field="log",
        )
    if "\x1b[" in text or "[0m" in text or "^[[" in text:
        text = COLOUR.sub("", text)
    return [Line(at, line) for at, line in enumerate(text.rstrip().splitlines(), 1)]


def bare(text: str) -> str:
    """A line without time, process, level and place in the source."""
    at = 0
    while found := PREFIXES.match(text, at):
        at = found.end()
    return text[at:].strip() or text.strip()


def windows(lines: list[Line], at: int) -> Iterator[str]:
    """The line at this place, then joined with the lines after it as if it had been wrapped.

    A wrapped line goes on behind a space, or in the middle of a word.
    """
    yield lines[at].text
    following = [line.text for line in lines[at + 1 : at + JOINED_LINES]]
    indented = bool(following) and following[0][:1].isspace()
    parts = [lines[at].text, *map(bare, following)]
    for count in range(2, len(parts) + 1):
        for glue in (" ",) if indented else ("", " "):
            yield glue.join(parts[:count])


def short(text: str) -> str:
    """The message of a line, cut to what a table can show."""
    told = bare(text)
    return told if len(told) <= SHOWN else told[: SHOWN - 1] + "…"


def other_engine(lines: Iterable[Line]) -> str | None:
    """The engine whose log this looks like, when it is not vLLM's."""
    for line in lines:
        for engine, marks in ENGINES.items():
            if any(mark.casefold() in line.text.casefold() for mark in marks):
                return engine
    return None


def _binary() -> ScenarioError:
    return ScenarioError(
        "log_binary",
        "This is binary data, not a log: it holds zero bytes. Unpack it first (gzip, zip), or copy "
        "the text of the log.",
        field="log",
    )

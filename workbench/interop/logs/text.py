"""Split the text of a log into lines, without colours and without what precedes a message."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from html import unescape
from typing import Any, NamedTuple

from workbench.access.json_text import parse_json
from workbench.core.errors import ScenarioError

MAX_LOG_BYTES = 256 * 2**20
START_IS_ENOUGH = "Its start is enough: `head -c 20M FILE | workbench explain-log -`."
PROBE = 65_536
LONGEST_LINE = 2**20
"""Characters of a line that are read: a whole start on one line has fewer."""
LONGEST_HEAD = 4096
"""Characters of a line in which a head or a progress bar is looked for."""
SHOWN = 220
PASTED = "`non-default args` to `Maximum concurrency` or to the error"
MAX_REPEATS = 40
"""One message is explained at most this often with different numbers; ranks repeat messages."""

COLOUR = re.compile(
    r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|(?:\^\[)?\[\d{1,3}(?:;\d{1,3})*m"
)
ENTITY = re.compile(r"&(?:lt|gt|amp|quot|#x27|#39);")
"""What `html.escape` makes of a character: a log out of the source of a page."""
COMPOSED = re.compile(r"\s*(?:([\w.@/-]+)\s+\||\[(?=pod/)([^\]]+)\])")
"""The service before a line of docker compose, and the pod before one of kubectl."""
CARRIER = re.compile(
    r"""\s*(?:
        [\w.@/-]+\s+\|                                   # docker compose and swarm: vllm-1  |
      | \[pod/[^\]]+\]                                   # kubectl --prefix
      | \d{4}-\d\d-\d\dT[\d:]{8}(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?(?:\s\S+\s[\w.@/-]+\[\d+\]:)?
      | (?:stdout|stderr)\s[FP]\b                        # containerd, after its time
      | \w{3,4}\.?\s+\d{1,2}\s[\d:]{8}\s\S+\s[\w.@/-]+(?:\[\d+\])?:  # journald
      | \[\d*,?(?:rank)?\d+\](?:<\w+>)?:                 # torchrun, mpirun
      | [>▎▌│┃|](?=\s)                                  # a quotation, in mail or in a terminal
    )[ ]?""",
    re.VERBOSE,
)
"""What a container, a journal or a launcher puts before every line, also before a wrapped one."""
HEAD = re.compile(
    r"""\s*(?:
        \([A-Za-z_][\w.]*(?:\s+(?:rank|pid|ip)=[^)]*)\)  # (EngineCore pid=12), Ray's (Worker pid=1)
      | (?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b
      | \d\d-\d\d\s[\d:]{8}
      | \[?\d{4}-\d\d-\d\d[\sT][\d:]{8}(?:[.,]\d+)?(?:[+-]\d\d:\d\d)?\]?
      | -\s[\w.]+\s-\s(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\s-
      | \[[\w.*]+\.py:\d+\]
      | [\w.]+\.py:\d+[\]:]
      | \[repeated\ \d+x\ across\ cluster\]
    )\s*""",
    re.VERBOSE,
)
"""What vLLM and Ray put before a message."""
PROGRESS = re.compile(r"\d%\|")
MESSAGE_KEYS = ("message", "msg", "log", "MESSAGE", "textPayload", "event", "line", "body")
"""Keys of JSON log lines that hold the text; the first one present counts."""
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


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Return the lines of a text with their numbers, from 1."""
    return enumerate(text.splitlines(), 1)


def decoded(data: bytes) -> str:
    """Return the text in the bytes of a log file: UTF-8, or UTF-16 if it begins with its mark.

    Errors: ScenarioError for binary data and for more than 256 MiB.
    """
    if len(data) > MAX_LOG_BYTES:
        limit = f"A log of more than {MAX_LOG_BYTES >> 20} MiB is not read."
        raise ScenarioError("out_of_range", f"{limit} {START_IS_ENOUGH}", field="log")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data[:PROBE]:
        raise _binary()
    return data.decode("utf-8-sig", errors="replace")


def lines_of(
    text: str, physical_lines: Callable[[str], Iterable[tuple[int, str]]] = numbered_lines
) -> list[Line]:
    """Return the lines, without colours. Errors: ScenarioError for an empty or a binary text."""
    if "\0" in text[:PROBE]:
        raise _binary()
    if not text.strip():
        what = "Paste the lines that vLLM printed while it started"
        message = f"There is nothing to explain. {what}, from {PASTED}."
        raise ScenarioError("log_empty", message, field="log")
    numbered = physical_lines(text.rstrip())
    found: list[Line] = []
    goes_on = False
    for at, physical in numbered:
        plain = COLOUR.sub("", physical[:LONGEST_LINE])
        carrier, line, is_part = _carried(ENTITY.sub(lambda one: unescape(one[0]), plain))
        if goes_on:
            found[-1] = Line(found[-1].number, found[-1].text + line)
        else:
            found += [Line(at, one) for one in (carrier + line).splitlines() or [""]]
        goes_on = is_part
    return found


def _carried(line: str) -> tuple[str, str, bool]:
    """Return the container's prefix of a line, the line, and whether the next one continues it."""
    at = 0
    is_part = False
    while (found := CARRIER.match(line, at)) is not None:
        at = found.end()
        is_part = found.group().strip() in {"stdout P", "stderr P"}
    carrier, line = line[:at], line[at:]
    read: Any = None
    with suppress(ValueError):
        read = parse_json(line) if line.startswith("{") else None
    message = _message_of(read)
    if message is None:
        return carrier, line, is_part
    # Docker cuts long lines: all but the last piece lack the end of the line.
    is_part = read.keys() >= {"log", "stream"} and not message.endswith("\n")
    return carrier, message.rstrip("\r\n"), is_part


def _message_of(read: Any) -> str | None:
    if not isinstance(read, dict):
        return None
    for key in MESSAGE_KEYS:
        if isinstance(read.get(key), str):
            return str(read[key])
    return _message_of(read.get("jsonPayload"))


def bare(text: str) -> str:
    """Return a line without time, process, level and place in the source."""
    at = 0
    while found := CARRIER.match(text, at) or HEAD.match(text, at):
        at = found.end()
    return text[at:].strip() or text.strip()


def is_begun(text: str) -> bool:
    """Return whether something begins in this line; a wrapped message continues without a head."""
    return _is_begun(text[:LONGEST_HEAD])


@lru_cache(maxsize=1024)
def _is_begun(text: str) -> bool:
    """Return the same of its first characters: each line is looked at from hundreds before it."""
    at = 0
    while found := CARRIER.match(text, at):
        at = found.end()
    return HEAD.match(text, at) is not None or PROGRESS.search(text, at) is not None


def short(text: str) -> str:
    """Return the message of a line, cut to what a table can show."""
    message = bare(text)
    return message if len(message) <= SHOWN else message[: SHOWN - 1] + "…"


def other_engine(lines: Iterable[Line]) -> str | None:
    """Return the engine whose log this looks like, if it is not vLLM's."""
    for line in lines:
        for engine, marks in ENGINES.items():
            if any(mark.casefold() in line.text.casefold() for mark in marks):
                return engine
    return None


def _binary() -> ScenarioError:
    advice = "Unpack it first (gzip, zip), or copy the text of the log."
    message = f"This is binary data, not a log: it holds zero bytes. {advice}"
    return ScenarioError("log_binary", message, field="log")

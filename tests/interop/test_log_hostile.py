"""Values that vLLM never prints, and lines that end anywhere, raise errors of ours at most."""

from __future__ import annotations

import re
import time
from contextlib import suppress

import pytest

import workbench as wb
from tests.interop.test_log_messages import LINES
from workbench.core.errors import WorkbenchError
from workbench.interop.logs.facts import entries, logged_fields
from workbench.interop.logs.text import LONGEST_LINE, _carried, lines_of
from workbench.models.names import models_named_in

NUMBER = re.compile(r"\d+(\.\d+)?")
HOSTILE = (
    *("9" * 5000, "9" * 400 + ".5", "9" * 18, "9" * 18 + ".5"),
    *("1.5.35", "1,2,3,,", "0.0", "inf", "nan", "1e999"),
)
HEAD = "Initializing a V1 LLM engine (v0.23.0) with config: model='Qwen/Qwen3-8B', dtype=bfloat16\n"


def explain(line):
    """Explain the line in a log whose model is known."""
    with suppress(WorkbenchError):
        wb.explain_log(HEAD + line)._repr_html_()


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", [name for name, line in LINES.items() if NUMBER.search(line)])
def test_numbers_that_no_engine_prints(name):
    for number in HOSTILE:
        explain(NUMBER.sub(lambda _match, number=number: number, LINES[name]))


@pytest.mark.sampled(40)
@pytest.mark.parametrize("name", LINES)
def test_a_line_that_ends_anywhere(name):
    line = LINES[name]
    for end in range(len(line) // 8, len(line), max(1, len(line) // 8)):
        explain(line[:end])


@pytest.mark.parametrize("filler", [" ", ":", "A=", "docker run "])
def test_a_long_line_is_searched_once(filler):
    """A pattern that looks back for every character takes hours for this line."""
    noise = filler * (200_000 // len(filler))
    commands = ("vllm serve", "vllm-openai", "python -m vllm.entrypoints")
    for words in (*commands, "CUDA graph memory profiling is enabled"):
        explain(f"{words}{noise}")
        explain(f"docker run {noise} {words}")


@pytest.mark.parametrize("filler", ["x", "x.", ".", "-", "a-.", "a/", "9b-"])
def test_names_are_searched_once_in_a_long_line(filler):
    """A log without a model: 100,000 letters in a row took two minutes."""
    text = "GPU KV cache size: 315,039 tokens\nOOM with Qwen3.5-9B-FP8"
    found = models_named_in(f"{text} {filler * (500_000 // len(filler))}")
    assert found[0] == "qwen3.5-9b"


@pytest.mark.parametrize("depth", [60, 100, 2000])
def test_a_message_that_is_nested_too_deep_is_left_alone(depth):
    """Python 3.12 reads JSON deeper than a function of ours may call itself."""
    message = '{"message": "GPU KV cache size: 1,024 tokens"}'
    line = '{"jsonPayload": ' * depth + message + "}" * depth
    assert _carried(line)[1].startswith("GPU KV cache size") == (depth < 64)


def test_a_line_is_read_to_a_limit():
    """A file of 54 MB without a line feed took 8 s: every message is looked for in all of it."""
    first, second = lines_of("Using " * LONGEST_LINE + "\nplatform cuda")
    assert len(first.text) == LONGEST_LINE
    assert second == (2, "platform cuda")


@pytest.mark.parametrize("name", ["116", "None", "'qwen3.5-4b'", "['x', 'qwen3.5-4b']"])
def test_a_served_name_may_be_anything(name):
    values = entries(f"{{'model': '/models/x', 'served_model_name': {name}}}")
    assert (logged_fields(values)["model"] == "qwen3.5-4b") == ("qwen" in name)


@pytest.mark.parametrize(
    "line",
    [
        f"GPU KV cache size: {'9' * 4000} tokens\n",
        f"non-default args: {{{'[' * 3000}\n",
        f"non-default args: {{{chr(39)}a{chr(39)}: 1, {'1, ' * 700}\n",
    ],
    ids=["digits", "brackets", "arguments"],
)
def test_lines_without_heads_are_not_searched_again_from_every_line_before_them(line):
    start = time.thread_time()
    wb.explain_log(line * (2 * 10**6 // len(line)))
    assert time.thread_time() - start < 6

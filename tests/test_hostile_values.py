"""Values of 10^5 characters in every option: a short message with the start of the value."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import workbench as wb
from tests.commands import run
from tests.models.configs import llama
from workbench.core.errors import SHOWN_CHARACTERS

ROOT = Path(__file__).parents[1]
COUNT = 100_000
VALUES = {
    "words": "q" * COUNT,
    "brackets": "[" * COUNT,
    "digits": "9" * COUNT,
    "negative": "-" + "9" * COUNT,
    "spaces": "q " * COUNT,
    "folders": "../" * COUNT,
    "null": "q\0",
}
COMMANDS = (
    *("resolve {}", "resolve bamba-9b -s {}", "resolve bamba-9b -s tensor_parallel={}"),
    *("resolve bamba-9b -s {}=1", "resolve bamba-9b -s device={}", "resolve --batch {}"),
    *("layout bamba-9b --layer {}", "layout bamba-9b --rule {}", "layout bamba-9b --layout {}"),
    *("layout bamba-9b --runner {}", "layout bamba-9b --num-blocks {}"),
    *("offload bamba-9b --cpu-memory {}", "offload bamba-9b --block-size {}"),
    *("transfer bamba-9b --prefill {}", "transfer bamba-9b --decode tensor_parallel={}"),
    *("chunks {}", "chunks ,{}", "chunks bamba-9b,{}", "chunks bamba-9b --connector {}"),
    *("diff bamba-9b --from {}", "backends {}", "backends --rules {}", "coverage --rules {}"),
    *("coverage --status {}", "models {}", "sweep bamba-9b --format {}", "sweep --kernel {}"),
    *("sweep bamba-9b -a {}", "sweep bamba-9b -a {}=1", "sweep bamba-9b -a tensor_parallel={}"),
    *("sweep bamba-9b --dask {}", "sweep bamba-9b --why {}", "explain-log {}"),
    *("results list {}", "results compare {}", "results export {} x.txt", "notebook run {}"),
    *("notebook check {}", "notebook run --matrix {}", "report {}", "inspect {}", "inspect -t {}"),
    *(
        "verify bamba-9b --python {}",
        "app {}",
        "lab {}",
        "{}",
        "--{}",
        "results {}",
        "resolve --{}",
    ),
)


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.sampled(14)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_long_value_is_answered_in_short(command):
    for name, value in VALUES.items():
        words = [word.replace("{}", value) for word in command.split()]
        found = run(*words)
        assert isinstance(found.exception, SystemExit), (name, found.exception)
        assert found.exit_code in {1, 2}, (name, found.output[:500])
        assert len(found.output) < 2500, (name, found.output[:500])
        runs = re.findall(r"q{2,}|9{2,}|\[{2,}|(?:\.\./)+|(?:q )+", found.output)
        assert max(map(len, runs), default=0) <= SHOWN_CHARACTERS, name


INTEGERS = (
    "layout bamba-9b --num-blocks {}",
    *(
        f"offload bamba-9b -s tensor_parallel=2 --cpu-memory 8GiB {rules} {option} {{}}"
        for rules in ("", "--set rules=0.33")
        for option in (
            *("--block-size", "--blocks-per-chunk", "--hash-block-size", "--world-size"),
            "--prefill-context-parallel-size",
        )
    ),
    "chunks bamba-9b --chunk {}",
    "chunks bamba-9b --prompt {}",
    "sweep bamba-9b -a tensor_parallel=1 --prompt-tokens {}",
    "sweep bamba-9b -a tensor_parallel=1 --why {}",
)


@pytest.mark.parametrize("command", INTEGERS)
def test_an_integer_that_no_float_holds_is_answered_in_short(command):
    """Python reads 400 digits, and refuses the 10^5 digits above."""
    for value in ("9" * 400, "-" + "9" * 400):
        found = run(*command.replace("{}", value).split())
        assert found.exit_code in {0, 2}, found.output[:500]
        message = found.output if found.exit_code else ""
        runs = re.findall("9{2,}", message)
        assert max(map(len, runs), default=0) <= SHOWN_CHARACTERS, message[:500]


def test_a_long_name_of_a_model_is_short_in_its_chip():
    door = wb.explore("bamba-9b", draft_model="q" * COUNT)
    chip = re.search(r'data-chip="draft_model">.*?</button>', door.view.regions["bar"], re.DOTALL)
    assert max(map(len, re.findall("q{2,}", chip[0]))) <= SHOWN_CHARACTERS


@pytest.mark.parametrize("method", ["eagle", "eagle3", "draft_model", "dflash"])
def test_a_long_class_of_a_drafter_is_answered_in_short(method):
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.resolve(
            model="llama-3.1-8b",
            speculative_method=method,
            num_speculative_tokens=2,
            draft_model=llama(architectures=["q" * COUNT]),
        )
    assert len(caught.value.message) < 1000
    assert max(map(len, re.findall("q{2,}", caught.value.message))) <= SHOWN_CHARACTERS


@pytest.mark.parametrize(
    ("encoding", "words", "there"),
    [
        ("cp1252", ["offload", "bamba-9b"], rb"\u2715"),
        ("cp1252", ["transfer", "bamba-9b"], rb"\u2713"),
        ("utf-8:strict", ["report", "bamba-9b", "-o", b"\xff.html"], rb"\udcff.html: "),
    ],
)
def test_a_character_that_the_output_does_not_have_is_written_as_its_number(
    tmp_path, encoding, words, there
):
    """On Windows, output that goes into a file or a pipe has the characters of one language."""
    if sys.platform == "win32" and any(isinstance(word, bytes) for word in words):
        pytest.skip("names of files are always text")
    done = subprocess.run(
        [sys.executable, "-m", "workbench", *words],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding},
    )
    assert done.returncode == 0, done.stderr
    assert there in done.stdout

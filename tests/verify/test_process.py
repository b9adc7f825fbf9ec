"""The process of another Python: its question, its crashes, its absence."""

from __future__ import annotations

import json
import sys

import pytest

from tests.commands import run
from workbench.models import load_model
from workbench.scenario import Scenario
from workbench.verify import process, verify
from workbench.verify.process import CannotVerifyError, Host, query

MEMORY = 20 * 2**30


def test_the_question_is_the_command_and_the_machine():
    scenario = Scenario(
        model="qwen3-8b",
        tensor_parallel=2,
        num_speculative_tokens=2,
        kv_cache_layout="NHD",
        device_memory_bytes=MEMORY,
        kv_cache_memory_bytes_by_rank=(MEMORY, MEMORY + 1),
    )
    found = process.question(scenario, load_model("qwen3-8b"), {"model_type": "qwen3"})
    words = found["words"]
    assert words[words.index("--tensor-parallel-size") + 1] == "2"
    assert json.loads(words[words.index("--speculative-config") + 1])["method"] == "ngram"
    assert "qwen3-8b" not in " ".join(words)
    assert found["environment"] == {"VLLM_KV_CACHE_LAYOUT": "NHD"}
    assert found["ranks_bytes"] == [MEMORY, MEMORY + 1]
    assert found["device_memory_bytes"] == MEMORY
    assert found["config"] == {"model_type": "qwen3"}


def answers_of(monkeypatch, program):
    """Run `program` in place of the probe, in a real process."""
    monkeypatch.setattr(process, "BOOT", program.replace("{", "{{").replace("}", "}}"))
    return query(sys.executable, Host("cpu"), [{}, {}])


INSTALLED = '{"version": "0.1", "platform_class": "P", "stand_ins": {}}'
HELLO = f"import os; print({INSTALLED!r}, flush=True)\n"


def test_a_process_that_crashes_keeps_what_it_answered_and_says_so(monkeypatch):
    answered = 'input(); print(\'{"id": 0, "answers": {"block_size": 3}}\', flush=True)\n'
    installed, outcomes = answers_of(monkeypatch, HELLO + answered + "os.abort()")
    assert installed.version == "0.1"
    assert outcomes[0].answers == {"block_size": 3}
    assert "ended with status" in outcomes[1].failure


@pytest.mark.parametrize("end", ["input()", "os.abort()"])
def test_a_process_leaves_no_temporary_file(monkeypatch, tmp_path, end):
    monkeypatch.setattr(process.tempfile, "tempdir", str(tmp_path))
    program = f"""
import json, os, tempfile
folder = tempfile.mkdtemp()
open(f"{{folder}}/config.json", "w")
input()
print(json.dumps({{"id": 0, "answers": {{"folder": folder}}}}), flush=True)
{end}
"""
    _, outcomes = answers_of(monkeypatch, HELLO + program)
    assert outcomes[0].answers["folder"].startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_process_that_hangs_is_stopped(monkeypatch):
    monkeypatch.setattr(process, "LIMIT_S", 3)
    asleep = HELLO + "import time; time.sleep(3600)"
    _, outcomes = answers_of(monkeypatch, asleep)
    assert [one.failure for one in outcomes] == ["no answer within 3 s"] * 2


def test_a_python_without_vllm_and_none_at_all_are_clear_errors():
    with pytest.raises(CannotVerifyError, match="No module named 'vllm'") as raised:
        verify([Scenario()])
    assert raised.value.code == "vllm_not_importable"
    with pytest.raises(CannotVerifyError, match="cannot be started"):
        verify([Scenario()], "/nowhere/python")
    done = run("verify", "qwen3-8b", "--python", "/nowhere/python")
    assert done.exit_code == 2

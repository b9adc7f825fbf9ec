"""A field is declared in one place, and everything that handles fields has it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("added_field.py")


@pytest.fixture(scope="module")
def found():
    """What a process sees whose table has one declaration more."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_scenario_has_it_and_checks_it(found):
    assert (found["default"], found["dict"], found["json"]) == (0, 512, True)
    name = "long_prefill_token_threshold"
    assert found["errors"] == [
        [
            "out_of_range",
            name,
            f"Invalid {name} 9000. Expected an integer from 0 to 8192. Nearest valid value: 8192.",
        ],
        ["wrong_type", name, f"Invalid {name} '9k' (str). Expected an integer."],
        ["wrong_type", name, f"Invalid {name} None (NoneType). Expected an integer."],
    ]


def test_the_schema_has_it(found):
    number = {"type": "integer", "minimum": 0, "maximum": 8192, "description": "tokens"}
    assert found["schema"] == number


def test_the_panel_has_a_picker_for_it(found):
    assert found["picker"] == {
        "section": "More settings",
        "label": "Long prefill",
        "tip": "--long-prefill-token-threshold, in tokens",
        "value": 512,
    }


def test_commands_have_it_in_and_out(found):
    assert "--long-prefill-token-threshold 512" in found["command"]
    assert "long_prefill_token_threshold=512" in found["python"]
    assert (found["read"], found["variable"], found["set"]) == (512, 4000, 16)


def test_a_log_gives_it(found):
    assert found["log"] == 256


def test_random_scenarios_and_sweeps_vary_it(found):
    assert found["random"] == [0, 256, 512]
    assert (found["axes"], found["axis"], found["swept"]) == ([0, 256], [0, 128], 3)

"""What a version says about its backends, as text; one committed file per release.

`WORKBENCH_UPDATE_GOLDENS=1 pytest tests/views/test_backends.py` writes the files: read the diff.
"""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path

import pytest

from tests import commands
from workbench.core.versions import DEFAULT, RULE_SETS, V0_33
from workbench.views.backends import backend_record, backend_text, backends_text

GOLDENS = Path(__file__).parents[1] / "data" / "backends"
UPDATE = "WORKBENCH_UPDATE_GOLDENS"
run = partial(commands.run, "backends")


@pytest.mark.parametrize("name", RULE_SETS.releases)
def test_the_effective_table_is_the_committed_one(name):
    rules = RULE_SETS[name]
    whole = [backends_text(rules), *(backend_text(rules, backend) for backend in rules.backends)]
    text, golden = "\n\n".join(whole) + "\n", GOLDENS / f"{name}.txt"
    if os.environ.get(UPDATE):
        golden.write_text(text, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == text


def test_every_golden_is_of_a_release():
    assert sorted(path.stem for path in GOLDENS.iterdir()) == sorted(RULE_SETS.releases)


def test_flashinfers_blocks_on_sm10x_are_in_its_record():
    sizes = backend_record(V0_33, "FLASHINFER")["kernel block sizes"]
    (where,) = [where for where in sizes if "SM10x" in where]
    assert sizes[where] == ["16", "32", "64", "128", "256", "512", "1024"]
    assert sizes["by default"] == ["16", "32", "64"]


@pytest.mark.parametrize("name", RULE_SETS.releases)
def test_every_condition_is_in_words(name):
    for backend in RULE_SETS[name].backends:
        text = backend_text(RULE_SETS[name], backend)
        assert not re.search(r"\bwhere *(:|;|$)|besides: *$|Return", text, re.MULTILINE), text


def test_the_table_has_a_line_per_backend():
    done = run("--rules", "0.33")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(V0_33.backends)


def test_without_a_version_it_is_the_default():
    assert run("FLASHINFER").stdout == backend_text(RULE_SETS[DEFAULT], "FLASHINFER") + "\n"


def test_a_record_as_json():
    record = json.loads(run("B12X", "--rules", "0.33", "--json").stdout)
    assert record["takes exact block sizes only"] is True
    assert "order of choice" not in record
    every = json.loads(run("--rules", "0.33", "--json").stdout)
    assert record in every


@pytest.mark.parametrize(
    ("args", "nearest"),
    [(("FLASHINFR",), "FLASHINFER"), (("--rules", "0.3"), "0.33")],
)
def test_an_unknown_name_is_an_error_with_the_nearest(args, nearest):
    done = run(*args)
    assert done.exit_code == 2
    assert nearest in done.output

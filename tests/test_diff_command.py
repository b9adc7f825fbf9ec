"""`workbench diff`."""

from __future__ import annotations

import json
from functools import partial

from tests import commands

run = partial(commands.run, "diff")


def test_a_changed_scenario_exits_with_1():
    done = run("--from", "0.23", "--to", "0.33", "kimi-linear-48b-a3b")
    assert done.exit_code == 1
    assert "1,888 tokens -> 1,920 tokens" in done.stdout


def test_an_unchanged_scenario_exits_with_0():
    assert run("llama-3.1-8b").exit_code == 0


def test_a_scenario_file_is_read(tmp_path):
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps({"model": "kimi-linear-48b-a3b", "enable_prefix_caching": True}))
    done = run("--json", str(path))
    report = json.loads(done.stdout)
    assert report["model"] == "kimi-linear-48b-a3b"
    assert "enable_prefix_caching" not in {entry["name"] for entry in report["differences"]}


def test_the_catalog_is_one_line_per_model():
    done = run("--catalog")
    assert done.exit_code == 1
    assert "bamba-9b" in done.stdout


def test_the_newest_release_is_not_compared_with_itself():
    done = run("--from", "0.33", "llama-3.1-8b")
    assert done.exit_code == 2
    assert "0.33 is the newest version" in done.stderr
    assert "start from, such as 0.23" in done.stderr
    assert run("--from", "0.33", "--to", "0.33", "llama-3.1-8b").exit_code == 0


def test_an_upgrade_to_a_version_starts_from_the_one_before():
    for new, old in (("0.33", "0.23"), ("0.23", "before-37467")):
        report = json.loads(run("--json", "--to", new, "llama-3.1-8b").stdout)
        assert (report["from"]["rules"], report["to"]["rules"]) == (old, new)


def test_invalid_input_is_reported():
    assert run().exit_code == 2
    assert run("--catalog", "llama-3.1-8b").exit_code == 2
    unknown = run("--to", "0.34", "llama-3.1-8b")
    assert unknown.exit_code == 2
    assert "0.33" in unknown.stderr
    assert run("no-such-model").exit_code == 2

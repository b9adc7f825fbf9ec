"""The commands `workbench explain-log` and `workbench report`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import workbench as wb
from tests.commands import run
from workbench.scenario import Scenario

LOGS = Path(__file__).parents[1] / "data" / "logs"
LOG = LOGS / "whole_start_0_23.log"


def test_a_file_and_stdin_give_the_same_explanation():
    from_file, from_stdin = run("explain-log", LOG), run("explain-log", "-", given=LOG.read_bytes())
    assert from_file.exit_code == from_stdin.exit_code == 0
    assert from_file.output == from_stdin.output
    assert "The log says 1,056 tokens, the rules give 1,056 tokens because:" in from_file.output


def test_json_is_one_object_with_a_version():
    report = json.loads(run("explain-log", LOG, "--json").output)
    assert report["schema_version"] == 1
    assert wb.resolve(Scenario.from_dict(report["scenario"])).block_size == 1056


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "nothing to explain"),
        (b"\0\1", "binary"),
        ((LOGS / "sglang.log").read_bytes(), "SGLang"),
    ],
)
def test_what_cannot_be_explained_ends_with_2_and_the_reason(data, words):
    ended = run("explain-log", "-", given=data)
    assert ended.exit_code == 2
    assert words in ended.output


def test_a_file_that_is_not_there_ends_with_2(tmp_path):
    ended = run("explain-log", tmp_path / "none.log")
    assert ended.exit_code == 2
    assert "cannot be read" in ended.output


def test_a_report_and_its_design_lead_to_the_same_page(tmp_path):
    page, design, again = (tmp_path / name for name in ("a.html", "d.json", "b.html"))
    first = run(
        "report",
        "qwen3.5-4b",
        "-s",
        "tensor_parallel=2",
        "--title",
        "Ours",
        "--notes",
        "N",
        "-o",
        page,
        "--design",
        design,
    )
    assert first.exit_code == 0
    assert "kB, qwen3.5-4b" in first.output
    assert run("report", design, "-o", again).exit_code == 0
    assert again.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


def test_a_report_about_an_old_design_warns_on_the_page_and_on_the_terminal(tmp_path):
    design, page = tmp_path / "d.json", tmp_path / "p.html"
    wb.save_design(Scenario(model="qwen3.5-4b"), design)
    design.write_text(design.read_text().replace('"block_size": 528', '"block_size": 512'))
    ended = run("report", design, "-o", page)
    assert ended.exit_code == 0
    assert "block_size was 512 and is 528 now" in ended.output
    assert "Block size was 512 and is 528 now" in page.read_text(encoding="utf-8")


def test_a_newer_design_is_refused(tmp_path):
    design = tmp_path / "d.json"
    wb.save_design(Scenario(), design)
    design.write_text(design.read_text().replace('"schema_version": 1', '"schema_version": 9'))
    ended = run("report", design)
    assert ended.exit_code == 2
    assert "Install a newer workbench" in ended.output


@pytest.mark.parametrize(
    "arguments", [["no-such-model"], ["qwen3.5-4b", "-o", "/no/such/folder/x.html"]]
)
def test_a_report_that_cannot_be_written_ends_with_2(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("report", *arguments).exit_code == 2
    assert list(tmp_path.iterdir()) == []

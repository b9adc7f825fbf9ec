"""What a release says is what the program does: agents' pages, changelog, citation, workflows."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from typer.testing import CliRunner

import workbench
from workbench.cli import app
from workbench.commands import options
from workbench.core.versions import DEFAULT, RULE_SETS
from workbench.extras import DISTRIBUTION, EXTRAS
from workbench.scenario.resolution import resolve
from workbench.scenario.schema import published_schema

ROOT = Path(__file__).parents[1]
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("AGENTS.md", "llms.txt")}
AGENTS = PAGES["AGENTS.md"]
COMMANDS = re.findall(r"^workbench (.+?) +# (\d+)$", AGENTS, re.MULTILINE)
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in (ROOT / ".github" / "workflows").glob("*.yml")
}


@pytest.fixture
def release(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import release

    return release


def run(words, **more):
    return CliRunner().invoke(app, words, **more)


@pytest.mark.parametrize(("words", "status"), COMMANDS, ids=[words for words, _ in COMMANDS])
def test_a_command_of_the_page_has_its_exit_code(words, status):
    done = run(shlex.split(words.replace("tests/", f"{ROOT}/tests/")))
    assert done.exit_code == int(status), done.output
    if "--json" in words:
        lines = done.stdout.splitlines() if words.startswith("models") else [done.stdout]
        assert lines
        assert all(isinstance(json.loads(line), dict) for line in lines)
    if status == "2":
        assert done.stdout == ""
        assert re.match(r"(error|refused) \[\w+\] ", done.stderr)


def test_the_page_shows_every_command_that_prints_json():
    shown = {words.split()[0] for words, _ in COMMANDS if "--json" in words}
    found = set()
    for one in app.registered_commands:
        name = (one.name or one.callback.__name__).replace("_", "-")
        if "as_json" in one.callback.__annotations__ and name not in {"inspect", "verify"}:
            found.add(name)
    assert shown == found


def test_the_batch_of_the_page_gives_the_fields_that_it_names():
    line = re.search(r"^echo '(.*)' \| workbench (.*)$", AGENTS, re.MULTILINE)
    given = f'{line[1]}\n{{"model": "no-such-model"}}\n'
    done = run(line[2].split(), input=given)
    plan, refused = map(json.loads, done.stdout.splitlines())
    named = re.search(r"A plan has (.*)", AGENTS)[1]
    fields = re.findall(r"`(\w+)`", named.replace(re.search(r"\(.*?\)", named)[0], ""))
    assert len(fields) > 5
    assert set(fields) <= set(plan)
    problems = resolve(model="gemma-2-2b", tensor_parallel=8, decode_context_parallel=2).to_dict()
    inner = re.findall(r"`(\w+)`", re.search(r"`problems` \((.*?)\)", named)[1])
    assert set(inner) <= set(problems["problems"][0])
    said = re.search(r"An error has the key `error` with (.*?)\. ", AGENTS)[1]
    assert set(re.findall(r"`(\w+)`", said)) == set(refused["error"])
    assert {"error", "scenario", "plan"} <= set(published_schema()["$defs"])


def test_the_releases_of_the_page_are_those_of_the_rules():
    line = re.search(r"`rules` is .*: `(.*)` is the default, `(.*)` the newest", AGENTS)
    assert line.groups() == (DEFAULT, RULE_SETS.newest)


def test_the_exit_codes_are_those_of_the_program():
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", AGENTS, re.MULTILINE)}
    assert codes == {0, 1, 2, options.FAULT, options.INTERRUPTED, options.TERMINATED}
    assert options.INCOMPLETE in codes


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere_and_names_are_the_distributions(name):
    links = re.findall(r"\]\(([^)#]+)", PAGES[name])
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []
    assert f"uvx {DISTRIBUTION} resolve" in PAGES[name]
    assert DISTRIBUTION in PYPROJECT["project"]["scripts"]


def test_the_changelog_names_every_extra():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    named = re.search(r"is an extra \((.*?)\)", text)[1]
    assert set(re.findall(r"`(\w+)`", named)) == {*EXTRAS, "all"}


def test_a_release_says_what_the_rules_were_checked_against(release):
    reports = json.loads(release.VERIFIED.read_text(encoding="utf-8"))["reports"]
    assert {one["rules"] for one in reports} == set(RULE_SETS.releases)
    for one in reports:
        assert date.fromisoformat(one["date"])
        assert f"vLLM {one['vllm']} on {one['date']}" in release.checked()


def test_the_version_is_written_once_and_cited(release):
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert release.VERSION.search(release.FACE.read_text("utf-8"))[1] == workbench.__version__
    citation = yaml.safe_load(release.CITATION.read_text(encoding="utf-8"))
    assert citation["version"] == workbench.__version__
    assert citation["license"] == PYPROJECT["project"]["license"]
    assert release.changes(workbench.__version__) is not None


def test_a_release_rewrites_the_citation(release):
    text = release.cited(release.CITATION.read_text("utf-8"), "9.8.7", "2030-01-02")
    again = yaml.safe_load(release.cited(text, "9.8.8", "2030-01-03"))
    assert again["version"] == "9.8.8"
    assert again["date-released"] == date(2030, 1, 3)


@pytest.mark.parametrize("version", ["1", "v1.2.3", "1.2.3 ", "1.2.3.dev0", ""])
def test_a_wrong_version_is_refused(release, version):
    with pytest.raises(SystemExit, match="Invalid VERSION"):
        release.make(version)


def test_a_tag_of_another_version_is_refused(release):
    with pytest.raises(SystemExit, match=f"Expected v{workbench.__version__}"):
        release.check("v0.0.1")


def test_every_supported_python_is_tested_and_declared():
    bounds = SpecifierSet(PYPROJECT["project"]["requires-python"])
    supported = [f"3.{minor}" for minor in range(30) if f"3.{minor}" in bounds]
    assert supported == ["3.11", "3.12", "3.13", "3.14"]
    for job in ("quick", "light"):
        assert WORKFLOWS["ci"]["jobs"][job]["strategy"]["matrix"]["python"] == supported
    classified = re.findall(
        r"Python :: (3\.\d+)$", "\n".join(PYPROJECT["project"]["classifiers"]), re.MULTILINE
    )
    assert classified == supported
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    check = re.search(
        r"^SUPPORTED := import sys, venv, ensurepip; sys.exit\((.*)\)$", makefile, re.MULTILINE
    )
    low, high = re.findall(r"\(3, (\d+)\)", check[1])
    assert [f"3.{minor}" for minor in range(int(low), int(high))] == supported
    for minor in supported:
        assert f"python{minor}" in makefile.split("\nPYTHON ?=")[1].split("; do")[0]
    assert sys.version_info[:2] >= (3, int(low))


def test_workflows_run_targets_and_tools_that_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    steps = [
        step["run"]
        for workflow in WORKFLOWS.values()
        for job in workflow["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]
    targets = {line.split()[1] for line in steps if line.startswith("make ")}
    assert targets == {"lint", "quick", "test", "thorough", "matrix", "site"}
    assert all(f"\n{target}: " in makefile for target in targets)
    for line in steps:
        for path in re.findall(r"tools/\S+", line):
            assert (ROOT / path).is_file()
    assert WORKFLOWS["release"][True]["push"]["tags"] == ["v*"]  # YAML reads `on` as true


@pytest.mark.parametrize("name", ["bug", "wrong_number"])
def test_an_issue_form_requests_info_and_the_log(name):
    path = ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml"
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    required = {one["id"] for one in form["body"] if one.get("validations", {}).get("required")}
    assert {"info", "log"} <= required
    info = next(one for one in form["body"] if one["id"] == "info")
    assert "`workbench info`" in info["attributes"]["label"]

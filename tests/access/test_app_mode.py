"""App mode: one declaration, and every refusal where the thing would happen."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.ui.panels import press
from workbench.access.app_mode import (
    VARIABLE,
    AppMode,
    AppRefusal,
    app_mode,
    check_model,
    check_python,
    check_scheduler,
    output_path,
)
from workbench.door.session import RecordedError, error_html
from workbench.models import load_model
from workbench.sweeps.kernels.cluster import cluster
from workbench.verify.process import Host, query


@pytest.fixture
def app(tmp_path, monkeypatch):
    mode = AppMode(str(tmp_path / "out"), ("/opt/python",), ("tcp://here:1",), ("./own.json",))
    monkeypatch.setenv(VARIABLE, mode.to_text())
    return mode


def test_the_declaration_comes_back_as_it_was_made(app):
    assert app_mode() == app


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"output": "/"}'])
def test_a_damaged_declaration_allows_nothing(monkeypatch, text):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises((ValueError, KeyError, TypeError)):
        check_python("/opt/python")


def test_what_was_named_at_the_start_is_allowed(app):
    check_python("/opt/python")
    check_scheduler("tcp://here:1")
    check_model("./own.json")
    assert load_model("qwen3-8b").name == "qwen3-8b"
    assert load_model("Qwen/Qwen3-8B").name == "qwen3-8b"


@pytest.mark.parametrize(
    ("call", "option"),
    [
        (lambda: query("/bin/sh", Host("cpu"), ()), "--python"),
        (lambda: cluster("tcp://127.0.0.1:9"), "--dask"),
        (lambda: load_model("/etc/hostname"), "--model"),
        (lambda: load_model("x.json"), "--model"),
        (lambda: load_model("owner/name"), "--model"),
        (lambda: wb.resolve(model="~/config.json"), "--model"),
    ],
)
def test_everything_else_is_refused_where_it_would_happen(app, call, option):
    with pytest.raises(AppRefusal) as caught:
        call()
    assert caught.value.code == "not_in_app"
    assert f"workbench app {option}" in caught.value.message


def test_a_hub_id_of_known_layers_is_refused_with_the_model_to_use(app):
    command = "vllm serve Qwen/Qwen3.6-35B-A3B-FP8-dynamic -tp 2 --kv-cache-dtype fp8"
    door = wb.explore()
    door.submit(command)
    shown = door.view.regions["answers"]
    assert "Or use qwen3.6-35b-a3b, which by its name has the same layers" in shown
    assert "Apply Model qwen3.6-35b-a3b" in shown
    press(door, "apply", '{"model": "qwen3.6-35b-a3b"}')
    assert (door.plan.settings.tensor_parallel, door.plan.settings.kv_cache_dtype) == (2, "fp8")


@given(st.text() | st.sampled_from(["..", ".", "a/b", "/a", "a\\b", "C:a", "nul", "a\n", "", "é"]))
def test_a_name_is_inside_the_folder_or_refused(tmp_path_factory, name):
    folder = tmp_path_factory.getbasetemp() / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, AppMode(str(folder)).to_text())
        try:
            path = output_path(name, ".db")
        except AppRefusal:
            return
    assert path.parent == folder
    assert path.name.isascii()
    assert path.suffix == ".db"


def test_outside_an_app_a_name_is_a_path(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert str(output_path("some/where.sqlite", ".db")) == "some/where.sqlite"
    check_python("/anything")


def test_a_log_does_not_reveal_which_folders_exist(app, tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    text = f"vllm serve {tmp_path}"
    assert wb.from_vllm_command(text).scenario.model == str(tmp_path)
    monkeypatch.delenv(VARIABLE)
    assert wb.from_vllm_command(text).scenario.model == str(tmp_path / "config.json")


def test_a_traceback_is_shown_only_on_request(app, monkeypatch):
    error = RecordedError("_save", "KeyError: 'secret'", "Traceback (most recent call last)")
    assert "Traceback" not in error_html(error)
    assert "secret" not in error_html(error)
    shown = AppMode("out", show_tracebacks=True)
    monkeypatch.setenv(VARIABLE, shown.to_text())
    assert "Traceback" in error_html(error)

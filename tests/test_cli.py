"""The `workbench` command."""

from __future__ import annotations

import json
import subprocess
import sys

import jsonschema
import pytest

import workbench as wb
from tests.catalog import distinct_models
from tests.commands import run
from tests.models.configs import llama, nemotron_h
from workbench.commands import options
from workbench.models import catalog_names
from workbench.scenario import Scenario
from workbench.scenario.schema import published_schema


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """A name that looks like a hub id must not reach the network from a test."""

    def unreachable(*_args):
        raise OSError

    monkeypatch.setattr("huggingface_hub.hf_hub_download", unreachable)


def ok(*args, given=None):
    result = run(*args, given=given)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*args, given=None, code=2):
    """The message of a command that fails on purpose, without a traceback."""
    result = run(*args, given=given)
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    return result.stderr


def batch(lines, *options):
    return [
        json.loads(line)
        for line in ok("resolve", "--batch", "-", *options, given=lines).splitlines()
    ]


def codes(results):
    return [result["error"]["code"] if "error" in result else "plan" for result in results]


def test_without_arguments_it_explains_itself():
    result = run()
    for word in ("lab", "models", "resolve", "notebook", "info"):
        assert word in result.output


def test_models_lists_the_catalog():
    lines = ok("models").splitlines()
    assert [line.split()[0] for line in lines] == list(catalog_names())
    assert "23 mamba2" in next(line for line in lines if line.startswith("nemotron-3-nano"))


def test_models_are_found_by_words_of_their_names():
    names = [line.split()[0] for line in ok("models", "Qwen3", "nvfp4").splitlines()]
    assert "nvidia/Qwen3-235B-A22B-NVFP4" in names
    assert all("qwen3" in name.casefold() for name in names)
    assert run("models", "no-such-model").exit_code == 2


def test_models_as_json():
    entries = [json.loads(line) for line in ok("models", "--json").splitlines()]
    assert [entry["name"] for entry in entries] == list(catalog_names())
    for entry in entries:
        assert entry["source"]["repo"]
        assert entry["attention_layers"] + entry["ssm_layers"] > 0


def test_resolve_prints_the_plan_as_text():
    text = ok(
        "resolve", "nemotron-3-nano-30b-a3b", "--set", "tensor_parallel=4", "-s", "platform=xpu"
    )
    plan = wb.resolve(tensor_parallel=4, platform="xpu")
    assert text.splitlines()[0] == repr(plan)
    assert "Why:" in text
    assert str(plan.trace[-1]) in text


def test_resolve_requires_a_model():
    assert "has no model" in refused("resolve")


def test_resolve_as_json_is_the_published_plan():
    plan = json.loads(ok("resolve", "jamba-1.5-mini", "--json"))
    assert plan == json.loads(json.dumps(wb.resolve(model="jamba-1.5-mini").to_dict()))


def test_resolve_takes_a_path(request):
    path = request.config.rootpath / "tests" / "data" / "models" / "bamba_9b.json"
    assert ok("resolve", path).startswith("bamba_9b on cuda, vLLM 0.23, FLASH_ATTN: block_size")


def test_resolve_takes_a_command_and_says_what_has_no_size():
    command = "vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct -tp 4 --seed 3"
    result = run("resolve", command, "-s", "rules=0.33", "--json")
    expected = wb.resolve(model="Qwen/Qwen3-Next-80B-A3B-Instruct", tensor_parallel=4, rules="0.33")
    assert json.loads(result.stdout) == json.loads(json.dumps(expected.to_dict()))
    assert "No size depends on: --seed 3." in result.stderr


def test_a_flag_that_vllm_lacks_is_a_problem_for_machines_too():
    command = "vllm serve Qwen/Qwen3.6-27B --tensor-paralel-size 2"
    found = json.loads(ok("resolve", command, "--json"))
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    [problem] = found["problems"]
    assert (problem["code"], problem["severity"]) == ("unknown_flag", "error")
    assert problem["operands"] == {"flag": "--tensor-paralel-size"}
    assert "Nearest: --tensor-parallel-size" in problem["message"]
    assert "vLLM would not start" in ok("resolve", command)
    assert wb.from_vllm_command(command).problems[0].code == "unknown_flag"


def test_resolve_counts_requests_of_the_length_that_is_said():
    for text in (
        "gemma 4 31b, h200, tp 2, 128k",
        "how many users at 128k on gemma 4 31b h200 tp 2",
    ):
        assert "requests of 128,000 tokens fit" in ok("resolve", text)


def test_resolve_says_which_of_several_scenarios_it_shows():
    result = run("resolve", "gpt-oss-20b vs qwen3.5-9b on l40s")
    assert result.stdout.startswith("qwen3.5-9b on cuda")
    assert "The last one is resolved. `workbench diff A B` compares two." in result.stderr


def test_resolve_takes_a_description_and_a_path_with_spaces(tmp_path):
    plan = json.loads(ok("resolve", "Qwen3-Next-80B, 4 x H100, fp8 KV", "--json"))
    assert plan["kv_cache_dtype"] == "fp8"
    path = tmp_path / "my model.json"
    path.write_text(json.dumps(llama()))
    assert ok("resolve", path).startswith("my model on cuda")


def test_other_texts_are_refused_with_what_to_use():
    assert "Model 'what is this' is not known" in refused("resolve", "what is this")
    log = "INFO Initializing a V1 LLM engine\nSetting attention block size to 544 tokens"
    assert "workbench explain-log FILE" in refused("resolve", log)


@pytest.mark.parametrize(
    ("setting", "field", "value"),
    [
        ("tensor_parallel=2", "tensor_parallel", 2),
        ("enable_prefix_caching=true", "enable_prefix_caching", True),
        ("backend=null", "backend", None),
        ("backend=FLASHINFER", "backend", "FLASHINFER"),
        ('backend="FLASHINFER"', "backend", "FLASHINFER"),
        ("compute_capability=10.0", "compute_capability", "10.0"),
        ("rules=0.23", "rules", "0.23"),
        ("max_model_len=-1", "max_model_len", -1),
    ],
)
def test_settings_are_json_or_bare_words(setting, field, value):
    plan = json.loads(ok("resolve", "nemotron-3-nano-30b-a3b", "--json", "--set", setting))
    assert plan == json.loads(json.dumps(wb.resolve(**{field: value}).to_dict()))


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("dtype", ["Expected field=value", "'dtype'"]),
        ("tensor_paralel=2", ["unknown_field", "Nearest: tensor_parallel"]),
        ("tensor_parallel=two", ["wrong_type", "Expected an integer"]),
        ("tensor_parallel=2.0", ["wrong_type", "Nearest valid value: 2"]),
        ("tensor_parallel=0", ["out_of_range", "Nearest valid value: 1"]),
        ("platform=cude", ["unknown_name", "Nearest: cuda"]),
        ("tensor_parallel=3", ["refused [heads_not_divisible]", "vLLM says: "]),
        ("self=1", ["unknown_field"]),
        ("=1", ["unknown_field"]),
    ],
)
def test_bad_settings_say_what_to_do(setting, words):
    message = refused("resolve", "nemotron-3-nano-30b-a3b", "--set", setting)
    for word in words:
        assert word in message


def test_an_unknown_model_lists_the_nearest():
    assert "bamba-9b" in refused("resolve", "bamba9b").partition("Allowed")[0]


SCHEMA = published_schema()
NEMOTRON = "nemotron-3-nano-30b-a3b"
BEFORE = {
    "model": NEMOTRON,
    "platform": "xpu",
    "tensor_parallel": 4,
    "rules": "before-37467",
}
VARIED = [
    *({"model": name} for name in distinct_models()),
    *({"model": name, "platform": "rocm", "tensor_parallel": 2} for name in distinct_models()),
    *(
        {"model": name, "platform": "xpu", "num_speculative_tokens": 2}
        for name in distinct_models()
    ),
    *(
        {"model": name, "platform": "cpu", "enable_prefix_caching": True}
        for name in distinct_models()
    ),
    *({"model": name, "kv_cache_dtype": "fp8", "block_size": 15} for name in distinct_models()),
    *({"model": name, "kv_cache_memory_bytes": 2**34} for name in distinct_models()),
    {"model": nemotron_h(), "compute_capability": 10.0, "backend": "FLASHINFER"},
    {"model": llama(), "max_model_len": -1},
    BEFORE,
    {
        "model": NEMOTRON,
        "mamba_cache_mode": "all",
        "mamba_block_size": 1024,
        "enable_prefix_caching": True,
    },
]
GARBAGE = [
    ("", "scenario_not_json"),
    ("   \t", "scenario_not_json"),
    ("{", "scenario_not_json"),
    ("nonsense", "scenario_not_json"),
    ("[" * 100_000, "scenario_not_json"),
    ("[]", "scenario_not_object"),
    ("null", "scenario_not_object"),
    ("7", "scenario_not_object"),
    ('{"modle": "bamba-9b"}', "unknown_field"),
    ('{"self": 1}', "unknown_field"),
    ('{"__dataclass_self__": 1}', "unknown_field"),
    ('{"x\\ud800": 1}', "unknown_field"),
    ('{"model": "bamba-9b", "model": "jamba-1.5-mini"}', "duplicate_field"),
    ('{"model": null}', "wrong_type"),
    ('{"model": ["bamba-9b"]}', "wrong_type"),
    ('{"tensor_parallel": NaN}', "wrong_type"),
    ('{"tensor_parallel": 1e400}', "wrong_type"),
    ('{"tensor_parallel": true}', "wrong_type"),
    ('{"block_size": "16"}', "wrong_type"),
    ('{"block_size": 16.0}', "wrong_type"),
    ('{"block_size": 0}', "out_of_range"),
    ('{"block_size": ' + "9" * 4000 + "}", "out_of_range"),
    ('{"platform": "tpu"}', "unknown_name"),
    ('{"rules": 0.23}', "wrong_type"),
    ('{"model": "no such model"}', "unknown_model"),
    ('{"model": ""}', "unknown_model"),
    ('{"model": "\\u0000"}', "unknown_model"),
    ('{"model": "./missing.json"}', "config_not_readable"),
    ('{"model": "./\\ud800.json"}', "config_not_readable"),
    ('{"model": "~no-such-user/config.json"}', "config_not_readable"),
    ('{"model": "no-such-owner/no-such-model"}', "hub_not_reachable"),
    ('{"model": {}}', "config_missing_field"),
    ('{"model": "bamba-9b", "tensor_parallel": 3}', "heads_not_divisible"),
    ('{"model": "plamo-2-1b", "dtype": "float16"}', "float16_not_supported"),
]


def test_the_schema_is_valid_and_published():
    assert json.loads(ok("resolve", "--schema")) == SCHEMA
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_scenario_that_is_accepted_satisfies_the_schema():
    validator = jsonschema.Draft202012Validator(SCHEMA["$defs"]["scenario"])
    for values in VARIED:
        validator.validate(values)
        validator.validate(Scenario(**values).to_dict())
    for values in ({"tensor_paralel": 1}, {"platform": "tpu"}, {"block_size": "16"}):
        assert not validator.is_valid(values)


def test_every_plan_and_every_error_satisfies_the_schema():
    lines = [*(json.dumps(values) for values in VARIED), *(line for line, _code in GARBAGE)]
    results = batch("\n".join(lines))
    assert len(results) == len(lines)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for result in results:
        validator.validate(result)
    assert codes(results).count("plan") > 4 * len(distinct_models())


def test_a_refused_line_is_an_error_in_its_place_and_the_exit_status_stays_0():
    lines = [line for pair in GARBAGE for line in ('{"model": "bamba-9b"}', pair[0])]
    expected = [code for _line, garbage in GARBAGE for code in ("plan", garbage)]
    results = batch("\n".join(lines) + "\n")
    assert codes(results) == expected
    for result in results[1::2]:
        assert set(result["error"]) == {"code", "message", "field"}


def test_order_is_kept():
    sizes = [1, 8, 2, 4] * 10
    lines = "".join(
        json.dumps({"model": "llama-3.1-8b", "tensor_parallel": n}) + "\n" for n in sizes
    )
    assert [plan["num_kv_heads_per_rank"] for plan in batch(lines)] == [8 // n for n in sizes]


def test_a_file_gives_the_same_as_standard_input(tmp_path):
    text = "\n".join(json.dumps(values) for values in VARIED[:20])
    file = tmp_path / "scenarios.jsonl"
    file.write_text(text, encoding="utf-8")
    assert ok("resolve", "--batch", file) == ok("resolve", "--batch", "-", given=text)


@pytest.mark.parametrize(
    "content",
    [
        b'\xef\xbb\xbf{"model": "bamba-9b"}\n{"model": "jamba-1.5-mini"}\n',
        b'{"model": "bamba-9b"}\r\n{"model": "jamba-1.5-mini"}\r\n',
        b'{"model": "bamba-9b"}\n{"model": "jamba-1.5-mini"}',
    ],
    ids=["byte order mark", "CRLF", "no last line feed"],
)
def test_files_of_other_editors(tmp_path, content):
    file = tmp_path / "scenarios.jsonl"
    file.write_bytes(content)
    results = [json.loads(line) for line in ok("resolve", "--batch", file).splitlines()]
    assert [result["model"] for result in results] == ["bamba-9b", "jamba-1.5-mini"]


def test_a_line_that_is_not_utf8_is_one_error(tmp_path):
    file = tmp_path / "scenarios.jsonl"
    file.write_bytes(b'{"model": "bamba-9b"}\n{"model": "\xff"}\n{"model": "bamba-9b"}\n')
    results = [json.loads(line) for line in ok("resolve", "--batch", file).splitlines()]
    assert codes(results) == ["plan", "scenario_not_json", "plan"]
    assert "UTF-8" in results[1]["error"]["message"]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\u0085", "\x7f"])
def test_only_line_feeds_end_a_line(character):
    config = llama(_name_or_path=f"a{character}b")
    line = json.dumps({"model": config}, ensure_ascii=False)
    assert [plan["model"] for plan in batch(f"{line}\n{line}\n")] == [f"a{character}b"] * 2


def test_an_inline_config_object_is_a_model():
    [plan] = batch(json.dumps({"model": nemotron_h(), "tensor_parallel": 4, "platform": "xpu"}))
    assert plan["model"] == "nemotron_h"
    expected = wb.resolve(tensor_parallel=4, platform="xpu")
    assert plan["block_size"] == expected.block_size


def test_infinity_in_a_config_is_what_published_files_have(tmp_path):
    """nvidia/Nemotron-H-8B-Base-8K and others: "time_step_limit": [0.0, Infinity]."""
    config = nemotron_h(time_step_limit=[0.0, float("inf")])
    assert "Infinity" in json.dumps(config)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    lines = [json.dumps({"model": config}), json.dumps({"model": str(file)})]
    assert codes(batch("\n".join(lines))) == ["plan", "plan"]


def test_no_lines_no_results():
    assert batch("") == []


def test_strict_sets_the_exit_status():
    good, bad = '{"model": "bamba-9b"}', '{"model": "bamba-9b", "tensor_parallel": 3}'
    assert run("resolve", "--batch", "-", "--strict", given=good).exit_code == 0
    result = run("resolve", "--batch", "-", "--strict", given=f"{bad}\n{good}\n")
    assert result.exit_code == 1
    assert codes(map(json.loads, result.stdout.splitlines())) == ["heads_not_divisible", "plan"]


def test_the_help_says_that_an_empty_line_is_an_error():
    assert "an empty line, also" in " ".join(ok("resolve", "--help").split())


def test_null_is_called_null():
    [result] = batch("null\n")
    assert result["error"]["message"].endswith("got null.")


def test_a_file_that_is_not_a_model_is_called_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.jsonl").write_text('{"model": "bamba-9b"}\n', encoding="utf-8")
    for command in ("report", "resolve"):
        said = refused(command, "b.jsonl")
        assert "'b.jsonl' is a file, and not a model" in said
        assert "--batch" in said
        assert "smolvlm" not in said


@pytest.mark.parametrize(
    ("name", "said"),
    [("H100", "-t sm_90"), ("mi300x", "-t gfx942"), ("T4", "it has no target here")],
)
def test_a_device_is_answered_with_its_target(name, said):
    pytest.importorskip("triton")
    assert said in refused("inspect", "-t", name)


def test_problems_are_not_refusals_for_strict():
    line = json.dumps(
        {
            "model": "nemotron-3-nano-30b-a3b",
            "platform": "xpu",
            "tensor_parallel": 4,
            "rules": "before-37467",
        }
    )
    result = run("resolve", "--batch", "-", "--strict", given=line)
    assert json.loads(result.stdout)["problems"]
    assert result.exit_code == 0


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_batch_file_that_cannot_be_read(name, tmp_path):
    assert "cannot be read" in refused("resolve", "--batch", tmp_path / name)


def test_batch_does_not_swallow_a_model_or_a_setting():
    assert "--batch" in refused("resolve", "bamba-9b", "--batch", "-", given="")
    assert "--batch" in refused("resolve", "-s", "dtype=float16", "--batch", "-", given="")


def test_info_is_a_table():
    lines = ok("info").splitlines()
    assert lines[:2] == ["| what | value |", "|---|---|"]
    assert all(line.startswith("| ") and line.endswith(" |") for line in lines[2:])
    names = [line.split("|")[1].strip() for line in lines[2:]]
    assert {"Python", "device", "Triton mode", "hybrid-kv-workbench", "torch"} <= set(names)


def test_notebook_run_on_a_missing_file(tmp_path):
    message = refused("notebook", "run", tmp_path / "missing.ipynb")
    assert "missing.ipynb" in message
    assert "No such file" in message


def test_notebook_run_on_something_else(tmp_path):
    file = tmp_path / "other.ipynb"
    file.write_text("not a notebook", encoding="utf-8")
    assert "other.ipynb" in refused("notebook", "run", file)


def test_notebook_run_with_a_parameter_without_a_value(tmp_path):
    message = refused("notebook", "run", tmp_path / "missing.ipynb", "-p", "model")
    assert "Invalid --parameter" in message


def test_notebook_run_refuses_what_it_would_not_use(tmp_path):
    twice = refused("notebook", "run", tmp_path / "a.ipynb", "-p", "count=1", "-p", "count=2")
    assert "--parameter 'count' is given 2 times" in twice
    for option in ("--workers", "--time-scale"):
        assert option in refused("notebook", "run", tmp_path / "a.ipynb", option, "2")
    assert "600 s" in ok("notebook", "run", "--help")


def test_lab_on_a_missing_notebook(tmp_path):
    assert "does not exist here" in refused("lab", tmp_path / "missing.ipynb")


def test_a_large_log_prints_progress_to_another_program(tmp_path, monkeypatch):
    monkeypatch.setattr(options, "PROGRESS_SECONDS", 0)
    log = tmp_path / "server.log"
    line = "Setting attention block size to 528 tokens to ensure that it fits.\n"
    log.write_text(line + "INFO: a request\n" * 200_000)
    result = run("explain-log", str(log), "--json")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[:2] == ["1 of 4 MB searched", "2 of 4 MB searched"]
    assert json.loads(result.stdout)["lines"]
    monkeypatch.setattr(options, "PROGRESS_SECONDS", 10**6)
    assert run("explain-log", str(log)).stderr == ""


def test_a_fault_of_ours_is_one_line_without_a_traceback(monkeypatch):
    def broken(*_arguments):
        raise ZeroDivisionError("x" * 500)

    monkeypatch.setattr("workbench.scenario.resolution.resolve", broken)
    done = run("resolve", "bamba-9b")
    assert done.exit_code == 70
    assert "error [internal_error] ZeroDivisionError: xxx" in done.output
    assert len(done.output) < 400
    monkeypatch.setenv("WORKBENCH_TRACEBACK", "1")
    assert isinstance(run("resolve", "bamba-9b").exception, ZeroDivisionError)


def test_the_module_is_the_same_command():
    command = [sys.executable, "-m", "workbench", "resolve", "--batch", "-"]
    lines = '{"model": "bamba-9b"}\n\n'
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    assert codes(map(json.loads, done.stdout.splitlines())) == ["plan", "scenario_not_json"]
    assert done.stderr == ""


def test_resolve_takes_the_version_and_says_it():
    assert ok("resolve", "qwen3.5-4b").startswith("qwen3.5-4b on cuda, vLLM 0.23, ")
    assert ok("resolve", "qwen3.5-4b", "--rules", "0.33") == ok(
        "resolve", "qwen3.5-4b", "-s", "rules=0.33"
    )


def test_a_command_without_a_model_says_of_which_one_the_plan_is():
    assert "note: A command without a model" in run("resolve", "vllm serve").stderr
    assert "note" not in run("resolve", "vllm serve Qwen/Qwen3.5-4B").stderr


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--tensor-parallel-size", "Set it with -s tensor_parallel=VALUE"),
        ("--tensor_parallel=4", "Set it with -s tensor_parallel=VALUE"),
        ("--frobnicate", "Fields are set with -s field=VALUE"),
        ("-tp", "in a quoted command: 'vllm serve MODEL --flag'"),
        ("--strct", "--strict"),
    ],
)
def test_an_option_that_there_is_not_says_how_fields_are_set(option, words):
    ended = run("resolve", "qwen3-8b", option)
    assert ended.exit_code == 2
    assert words in " ".join(ended.output.split())
    assert ("Possible options" in ended.output) == (option == "--strct")


def test_an_option_without_its_value_is_named():
    found = run("resolve", "bamba-9b", "-s")
    assert found.exit_code == 2
    assert "Option '-s' requires an argument." in found.output


def test_a_kernel_that_is_not_known_is_refused_before_anything_is_compiled():
    for name in ("UNKNOWN", "fast"):
        ended = run("inspect", "--kernel", name)
        assert ended.exit_code == 2
        assert "Compiling" not in ended.output
        assert "Allowed: faithful, context parallel; " in ended.output


def test_only_the_kernels_that_are_named_are_compiled():
    pytest.importorskip("triton")
    from workbench.kernels.inspection import inspected_names

    names = inspected_names("workbench.kernels.block_table.calls")
    assert "fast, any size" in names
    command = ["inspect", "--kernel", "fast, any size: gather_and_slots", "-t", "sm_90", "--json"]
    ended = run(*command)
    [report] = json.loads(ended.stdout)
    assert (report["kernel"], report["target"]) == (command[2], "sm_90")

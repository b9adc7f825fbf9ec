"""Verification: comparison, protocol and command; with a real vLLM if one is named.

`pytest -m vllm` needs WORKBENCH_VLLM_PYTHON, the Python of an environment that has vLLM
(tools/vllm_environment.py makes one).
"""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from tests.commands import run
from tests.core.conformance import PLAN_FIELDS, cases, scenario_values
from workbench.core.errors import Refused
from workbench.core.stages import hybrid_alignment
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.comparison import COMPARED, Row, compare
from workbench.core.what_if.releases import nearest_rules
from workbench.core.what_if.verification import KINDS, Check, Report
from workbench.models import catalog_names
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve
from workbench.scenario.scenario import random_scenarios
from workbench.verify import check
from workbench.verify.process import Outcome
from workbench.views.verify import verification_html, verification_text

PYTHON = os.environ.get("WORKBENCH_VLLM_PYTHON")
RECORDED = {ours: theirs for theirs, ours in PLAN_FIELDS.items() if ours in COMPARED}
"""Field of the comparison -> field of a recorded answer."""


def recorded(case):
    """A line of `tests/data/alignment.jsonl.gz` in the form of the probe's answers."""
    output = case["output"]
    if "error" in output:
        return Outcome(refusal={"by": "", "type": "", "message": output["error"]["message"]})
    answers = {ours: output[theirs] for ours, theirs in RECORDED.items()}
    answers["validate_block_size_error"] = output["validate_block_size_error"]
    # The layers were not recorded, nor what refuses them.
    unbuilt = {"model": "sizes alone are recorded"}
    return Outcome(answers=answers, functions=("recorded",), unanswered=unbuilt)


def checked(case):
    return check(Scenario(**scenario_values(case)), recorded(case), "0.23")


SOME = [*cases()[::9], *(case for case in cases() if "error" in case["output"])]


def test_recorded_answers_of_vllm_show_no_difference():
    found = [checked(case) for case in SOME]
    assert {at: one.differences for at, one in enumerate(found) if one.differences} == {}
    assert sum(len(one.rows) for one in found) > 15 * len(cases()) // 9


def test_a_planted_wrong_rule_shows_where_it_acts(monkeypatch):
    right = hybrid_alignment.smallest_base
    monkeypatch.setattr(hybrid_alignment, "smallest_base", lambda sizes: 2 * right(sizes))
    fields = {row.field for case in SOME for row in checked(case).differences}
    assert {"block_size", "mamba_page_size_padded", "attention_page_size_bytes"} <= fields
    assert not fields & {"mamba_page_size_bytes", "head_size", "mamba_cache_mode", "refusal"}


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_every_changed_answer_is_a_difference(name):
    case = next(case for case in cases() if "error" not in case["output"])
    outcome = recorded(case)
    changed = replace(
        outcome, answers={**outcome.answers, name: ("changed", outcome.answers[name])}
    )
    one = check(Scenario(**scenario_values(case)), changed, "0.23")
    assert [row.field for row in one.differences] == [name]


BARE = {"by": "f", "type": "AssertionError", "message": ""}
SAID = {"by": "f", "type": "ValueError", "message": "1 error: begins like this, and goes on"}


DRAFTING = {"model": "bamba-9b", "num_speculative_tokens": 3, "enable_prefix_caching": False}


def refused(vllm_text):
    return Refused("code", "ours", field="model", vllm_text=vllm_text)


@pytest.mark.parametrize(
    ("ours", "theirs", "kind"),
    [
        (resolve(Scenario()), None, "agree"),
        (resolve(Scenario()), SAID, "only vLLM refuses"),
        (resolve(Scenario()), BARE, "only vLLM refuses"),
        (refused(None), None, "only the workbench refuses"),
        (refused(""), None, "only the workbench refuses"),
        (refused("begins like this"), SAID, "both refuse"),
        (refused("another beginning"), SAID, "both refuse, with another reason"),
        (refused(None), SAID, "both refuse, with another reason"),
        (refused(None), BARE, "both refuse, with another reason"),
        (refused(""), SAID, "both refuse, with another reason"),
        (refused(""), BARE, "both refuse"),
        (resolve(kv_cache_memory_bytes=2**20), None, "only the workbench refuses"),
        (resolve(**DRAFTING), BARE, "both refuse"),
    ],
)
def test_the_kind_says_who_refuses_and_whether_the_reason_is_the_same(ours, theirs, kind):
    one = Check({}, compare(ours, {}, theirs))
    assert one.kind == kind
    assert (one.differences == ()) == (kind in KINDS[:2])


def test_a_warning_is_not_a_refusal():
    """A plan whose only problem is a warning starts, whatever vLLM says about it."""
    plan = resolve(kv_cache_memory_bytes=2**20)
    (text,) = [one.vllm_text for one in plan.errors]
    plan = replace(plan, problems=tuple(replace(one, severity="warning") for one in plan.problems))
    refusal = {**SAID, "message": text}
    assert Check({}, compare(plan, {}, refusal)).kind == "only vLLM refuses"


def test_what_vllm_could_not_answer_is_neither_agreement_nor_a_difference():
    silent = Check({}, failure="no such operator")
    assert Report("0.33.0", "0.33", {}, {}, (Check({}), silent)).failed == (silent,)
    assert silent.kind == "vLLM cannot answer here"
    unbuilt = Outcome(answers={"is_hybrid": True}, unanswered={"model": "a library is missing"})
    one = check(Scenario(), unbuilt, "0.33")
    assert one.kind == "vLLM cannot answer here"
    wrong = replace(unbuilt, answers={"is_hybrid": False})
    assert check(Scenario(), wrong, "0.33").kind == "differ"


MEMORY = 20 * 2**30


def groups_of(plan):
    """Groups of a plan in the form of the probe's answer."""
    return [
        {
            "kind": group.kind,
            "block_size": group.spec.block_size,
            "page_size_bytes": group.page_size_bytes,
            "layers": [
                [one.kind, one.block_size, one.page_size_bytes, False, count]
                for one, count in group.layers_by_spec
            ],
        }
        for group in plan.cache.groups
    ]


@pytest.mark.parametrize("model", ["gemma-3-27b", "qwen3.5-4b", "mamba-2.8b"])
def test_groups_are_compared_in_any_order_and_layer_by_layer(model):
    plan = resolve(model=model, kv_cache_memory_bytes=MEMORY)
    groups = groups_of(plan)
    rows = compare(plan, {"groups": groups[::-1]}, None)
    assert [(row.field, row.same) for row in rows] == [("groups", True), ("layers", True)]
    groups[0]["layers"][0][2] += 256
    rows = compare(plan, {"groups": groups}, None)
    assert [(row.field, row.same) for row in rows] == [("groups", True), ("layers", False)]


def test_backends_of_groups_are_compared():
    plan = resolve(model="gemma-3-27b", kv_cache_memory_bytes=MEMORY)
    groups = groups_of(plan)
    readers = [[plan.backend, "GDN_ATTN", "a class without a name in the registry"]] * len(groups)
    for others, same in ((readers, True), ([["FLASHINFER"], *readers[1:]], False)):
        rows = compare(plan, {"groups": groups, "group_backends": others}, None)
        assert [row.same for row in rows if row.field == "group_backends"] == [same]


def test_sizes_of_the_pool_are_compared():
    plan = resolve(kv_cache_memory_bytes=MEMORY)
    size = sum(tensor.size_bytes for tensor in plan.cache.tensors)
    right = {"num_blocks": plan.cache.num_blocks, "tensor_bytes": size}
    right["max_concurrency"] = plan.cache.max_concurrency * (1 + 1e-12)
    assert [row.same for row in compare(plan, right, None)] == [True] * 3
    wrong = {name: 2 * value for name, value in right.items()}
    assert [row.same for row in compare(plan, wrong, None)] == [False] * 3


def test_lines_that_the_hook_does_not_log_are_not_compared():
    plan = resolve(enable_prefix_caching=True)
    lines = [line for line in plan.log_lines if line.startswith(("Setting", "Padding"))]
    assert 0 < len(lines) < len(plan.log_lines)
    assert compare(plan, {"log_lines": ["Using max model len 4", *lines]}, None)[0].same
    assert not compare(plan, {"log_lines": lines[:1]}, None)[0].same


@pytest.mark.parametrize(
    ("version", "rules"),
    [
        ("0.23.0", "0.23"),
        ("0.33.2+cpu", "0.33"),
        ("0.26.1", "0.23"),
        ("0.28.0", "0.33"),
        ("0.29.0", "0.33"),
        ("1.0.0", "0.33"),
        ("dev", "0.33"),
        ("0.1.dev1+g1a2b3c", "0.33"),
    ],
)
def test_the_nearest_rules_are_taken_and_named(version, rules):
    assert nearest_rules(version) == rules
    report = Report(version, rules, {}, {}, ())
    assert report.exact == (version[:4] == rules)
    assert ("nearest" in verification_text(report)) == (not report.exact)


@pytest.mark.parametrize("own", ["0.23", "0.33"])
def test_numbers_of_another_release_than_the_scenario_are_reported_as_such(own):
    """A start under 0.23 is shown with 544 tokens, and 0.33 agrees with its own 576."""
    one = Check({"model": "qwen3-8b"}, rules=own)
    report = Report("0.33.0", "0.33", {}, {}, (one,))
    words = "The scenario is of 0.23: its numbers elsewhere can differ"
    for shown in (verification_text(report), verification_html(report)):
        assert (words in shown) == (own == "0.23")


def test_text_and_html_mark_differences_by_word_and_sign():
    rows = (Row("block_size", 16, 32, same=False), Row("head_size", 128, 128, same=True))
    one = Check({"model": "<b>"}, rows, ("Platform.update",), {"mamba_backend": "no class"})
    report = Report("0.33.0", "0.33", {}, {"vllm._C": "an empty module"}, (one,))
    text, html = verification_text(report), verification_html(report)
    assert "block_size  16         32    NO" in text
    assert "head_size   128        128   yes" in text
    assert "not verified: mamba_backend (no class)" in text
    assert "Platform.update" in text
    assert "vllm._C: an empty module" in text
    assert "<b>NO</b>" in html
    assert "&lt;b&gt;" in html
    assert "vllm._C" in html
    assert report.to_dict()["differences"][0]["fields"] == [
        {"field": "block_size", "workbench": 16, "vllm": 32}
    ]


def test_the_text_of_many_counts_how_often_each_field_agrees():
    same, other = (Row("block_size", 16, 16 + one, same=not one) for one in (0, 1))
    always = Row("head_size", 128, 128, same=True)
    checks = (Check({"model": "a"}, (same, always)), Check({"model": "b"}, (other, always)))
    silent = Check({"model": "c"}, unanswered={"model": "no such package"})
    report = Report("0.33.0", "0.33", {}, {}, (*checks, silent))
    assert report.agreement == {"block_size": (1, 2), "head_size": (2, 2)}
    text = verification_text(report)
    assert "block_size  1 of 2" in text
    assert "agrees in every scenario: head_size 2" in text
    assert "not verified: model (no such package)" in text
    assert report.to_dict()["unanswered"] == [
        {"scenario": {"model": "c"}, "why": {"model": "no such package"}}
    ]


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_random_scenarios_are_the_same_for_a_seed_and_reach_everything(rules):
    some = random_scenarios(3_000, 1, rules)
    assert some == random_scenarios(3_000, 1, rules)
    assert some != random_scenarios(3_000, 2, rules)
    assert {one.model for one in some} == set(catalog_names())
    assert {one.gdn_flashinfer_prefill for one in some} == {None, True, False}
    assert None in {one.max_num_batched_tokens for one in some}
    assert len({one.device_memory_bytes for one in some}) > 2
    assert {one.platform for one in some} == {"cuda", "rocm", "xpu", "cpu"}
    assert {one.rules for one in some} == {rules}
    assert {one.model for one in random_scenarios(9, 1, rules, ["qwen3-8b"])} == {"qwen3-8b"}
    assert {one.mamba_cache_mode for one in some} == {None, *RULE_SETS[rules].cache_modes}


@pytest.mark.parametrize("rules", RULE_SETS.releases)
def test_random_scenarios_set_every_field_that_a_question_can_set(rules):
    plain = Scenario(model="qwen3-8b", rules=rules).to_dict()
    drawn = [one.to_dict() for one in random_scenarios(1500, 1, rules)]
    never = {name for name in plain if all(one[name] == plain[name] for one in drawn)}
    # The installed torch decides; not every release has a dtype of the drafter's own and intervals.
    absent = {
        "draft_kv_cache_dtype": not RULE_SETS[rules].draft_kv_cache_dtypes,
        "prefix_cache_retention_interval": not RULE_SETS[rules].prefill.keeps_few_states,
    }
    assert never == {"rules", "torch_version", *(name for name in absent if absent[name])}
    drafted = {(one["speculative_method"], one["draft_model"] is None) for one in drawn}
    methods = RULE_SETS[rules].speculation.methods
    assert {("eagle3", False), ("dflash", False), ("mtp", True), ("ngram", True)} <= drafted
    assert not {
        name for name, is_alone in drafted if is_alone and name and methods[name].needs_model
    }


def test_only_explicit_settings_of_a_scenario_are_reported():
    scenario = Scenario(model="qwen3-8b", tensor_parallel=2)
    assert scenario.stated() == {"model": "qwen3-8b", "tensor_parallel": 2}


def run_command(*arguments):
    return run("verify", *arguments, "--python", PYTHON)


needs_vllm = [
    pytest.mark.vllm,
    pytest.mark.skipif(PYTHON is None, reason="WORKBENCH_VLLM_PYTHON names no Python"),
]


@pytest.mark.parametrize("model", ["nemotron-3-nano-30b-a3b", "kimi-linear-48b-a3b", "lfm2-1.2b"])
class TestRealVllm:
    """Answers of a real vLLM, of any version."""

    pytestmark = needs_vllm

    def test_the_command_finds_no_difference(self, model):
        done = run_command(
            model, "-s", "tensor_parallel=2", "-s", f"kv_cache_memory_bytes={MEMORY}", "--json"
        )
        report = json.loads(done.stdout)
        assert report["differences"] == []
        assert report["not_asked"] == []
        assert report["compared_fields"] > 30
        called = report["asked"]  # words: ok
        assert "Platform.update_block_size_for_backend" in called
        assert "get_model" in called
        assert "EngineCore._initialize_kv_caches" in called
        assert done.exit_code == 0

    def test_a_planted_wrong_rule_is_found(self, model, monkeypatch):
        right = hybrid_alignment.cdiv
        monkeypatch.setattr(hybrid_alignment, "cdiv", lambda a, b: right(a, b) + 1)
        done = run_command(model, "--json")
        fields = [row["field"] for row in json.loads(done.stdout)["differences"][0]["fields"]]
        assert "block_size" in fields
        assert done.exit_code == 1

"""Models whose tokens see later ones: vLLM makes no KV cache, and no view may show one."""

from __future__ import annotations

import json

import pytest

import workbench as wb
from tests.models.configs import llama
from tests.ui.panels import region
from workbench.core.errors import ConfigError, Refused
from workbench.core.layouts.error import LayoutError
from workbench.core.offload.request import OffloadRequest
from workbench.core.plan import Plan
from workbench.core.what_if.alternatives import capacity_on, fp8_gain
from workbench.models import read_model
from workbench.sweeps.row import row_of
from workbench.views.capacity.html import pool_html
from workbench.views.capacity.memory_parts import pool_parts
from workbench.views.offload.html import offload_html, offload_text
from workbench.views.report import Page, report_html

WHY = "no layer keeps keys and values"
MODELS = {
    "encoder": llama(model_type="bert", architectures=["BertModel"], dtype="float32"),
    "pools": llama(architectures=["LlamaBidirectionalModel"], pooling="avg"),
    "by the file": llama(architectures=["Qwen3ForSequenceClassification"], is_causal=False),
    "generates": llama(is_causal=False),
}


@pytest.fixture(params=["0.23", "0.33"])
def plan(request) -> Plan:
    return wb.resolve(wb.Scenario(model=MODELS["encoder"], rules=request.param, device="H100"))


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_the_scheduler_counts_blocks_of_all_ranks_that_share_a_context(rules):
    """`resolve_kv_cache_block_sizes`: without a group as with one."""
    ranks = {"tensor_parallel": 16, "decode_context_parallel": 2}
    plan = wb.resolve(wb.Scenario(model=MODELS["encoder"], rules=rules, **ranks))
    assert plan.cache is not None
    assert plan.cache.scheduler_block_size == 2 * plan.block_size


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_a_step_holds_whole_prompts_unless_the_class_generates(kind, rules):
    plan = wb.resolve(wb.Scenario(model=MODELS[kind], rules=rules, max_num_batched_tokens=64))
    codes = [problem.code for problem in plan.errors]
    expected = ["cache_without_groups"] if kind == "generates" else []
    assert [code for code in codes if code == "cache_without_groups"] == expected
    assert ("max_num_batched_tokens_below_length" in codes) == (kind != "generates")


@pytest.mark.parametrize("pooling", [{}, {"pooling": "max"}])
def test_a_class_that_pools_as_its_file_says_needs_that_field(pooling):
    # "requires a 'pooling' field" (0.33), "has no attribute 'pooling'" (0.23), "pool_type 'max'".
    config = llama(architectures=["LlamaBidirectionalModel"], **pooling)
    with pytest.raises(ConfigError, match="Expected avg or cls or last") as caught:
        read_model(config, "x")
    assert caught.value.vllm_text == ("pool_type 'max' not supported" if pooling else "'pooling'")


def test_memory_for_the_cache_changes_nothing(plan):
    """vLLM makes one block without a tensor, however much memory there is."""
    for size in (1, 2**30):
        found = wb.resolve(plan.scenario, kv_cache_memory_bytes=size)
        assert found.errors == ()
        assert (found.cache.num_blocks, found.cache.tensors, found.cache.groups) == (1, (), ())


def test_the_backend_must_compute_attention_over_later_tokens(plan):
    assert wb.resolve(plan.scenario, backend="FLEX_ATTENTION").errors == ()
    (problem,) = wb.resolve(plan.scenario, backend="FLASHINFER").errors
    assert "attention type encoder_only not supported" in problem.message


def test_what_needs_a_cache_says_that_there_is_none(plan):
    for ask in (plan.offload, lambda: wb.tables(plan), plan.built_cache):
        with pytest.raises(ValueError, match=WHY):
            ask()
    with pytest.raises(LayoutError, match="keeps no cache") as caught:
        plan.layout(num_blocks=4)
    assert caught.value.code == "keeps_no_cache"
    with pytest.raises(LayoutError, match="keeps no cache"):
        plan.byte_map(num_blocks=4)
    assert WHY in repr(plan.chunks())


def test_no_view_shows_a_cache(plan):
    assert WHY in pool_html(plan)
    assert WHY in offload_html(plan, OffloadRequest())
    assert WHY in offload_text(plan, OffloadRequest())
    assert "Groups and capacity" not in report_html(plan, Page())
    assert row_of(plan, 100)["waste_share"] is None


def test_no_figure_counts_requests_in_it(plan):
    assert pool_parts(plan, 100) == {}
    figure = wb.figures.memory_bar(plan)
    assert WHY in figure.layout.title.text
    assert {bar.x for bar in figure.data} == {(0.0,)}
    assert fp8_gain(plan, (100,)) is None
    assert capacity_on(plan, 1, "auto", 100) == (None, None)


def test_the_front_door_answers_for_a_model_without_a_cache(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MODELS["encoder"]), encoding="utf-8")
    door = wb.explore()
    door.submit(f"vllm serve {path}")
    text = region(door, "answers")
    assert WHY in text
    assert "no limit" in text
    door.submit("prefix caching on")
    assert "would not start" in region(door, "answers")


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_a_class_of_its_own_may_have_no_stages_where_the_one_that_generates_has(rules):
    config = llama(model_type="gemma3_text", architectures=["Gemma3TextModel"])
    with pytest.raises(Refused, match="pipeline_parallel") as caught:
        wb.resolve(wb.Scenario(model=config, rules=rules, pipeline_parallel=2))
    assert caught.value.code == "stages_not_supported"

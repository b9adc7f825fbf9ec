import re

import pytest

import workbench as wb
from tests.catalog import distinct_models, short_length
from workbench.models import catalog_config
from workbench.views.capacity.html import glossary, pool_html
from workbench.views.figures import reserved_bytes
from workbench.views.hits.html import hits_html

GIB = 2**30


def plan_of(max_model_len=2048, **fields):
    return wb.resolve(max_model_len=max_model_len, **fields)


@pytest.mark.parametrize("model", distinct_models())
def test_every_model_has_groups_and_hits_to_show(model):
    memory = {"max_model_len": short_length(model), "kv_cache_memory_bytes": 8 * GIB}
    plan = plan_of(model=model, enable_prefix_caching=True, **memory)
    assert f"{plan.cache.num_blocks:,} blocks" in pool_html(plan)
    assert "<p>" in hits_html(plan)
    assert sum(trace.y[0] for trace in reserved_bytes(plan).data) == pytest.approx(1)


def test_a_group_of_several_pages_and_backends_lists_all_of_them():
    html = pool_html(plan_of(model="llama-3.1-8b", kv_cache_dtype="turboquant_4bit_nc"))
    html = html.replace("\n", "")
    assert "4 of 65,536, 28 of 17,152" in html
    assert "FLASH_ATTN<br>TURBOQUANT" in html
    assert "<code>ALWAYS</code><br><code>UNIFORM_BATCH</code>" in html


def test_without_memory_the_need_is_shown():
    plan = plan_of(model="qwen3.5-4b")
    assert f"{plan.cache.needed_bytes:,} B" in pool_html(plan)


def test_pages_that_differ_leave_nothing_to_draw():
    plan = plan_of(
        model="nemotron-3-nano-30b-a3b", platform="xpu", tensor_parallel=4, rules="before-37467"
    )
    assert "cannot be made equal" in pool_html(plan)
    assert "cannot be made equal" in hits_html(plan)
    with pytest.raises(ValueError, match="cannot be made equal"):
        reserved_bytes(plan)


def test_the_glossary_names_every_block_size():
    plan = plan_of(model="qwen3.5-4b", enable_prefix_caching=True, block_size=32)
    found = {entry.name: entry.tokens for entry in glossary(plan, plan.cache)}
    assert found["--block-size"] == 32
    assert found["kernel block"] == plan.kernel_block_size
    assert found["minimum over groups"] == plan.block_size
    assert found["hash block"] == plan.cache.hash_block_size


def test_names_are_escaped():
    hostile = {**catalog_config("bamba-9b"), "_name_or_path": "<img src=x onerror=alert(1)>"}
    html = pool_html(plan_of(model=hostile, kv_cache_memory_bytes=GIB))
    assert not re.search("<img", html)


def test_the_bound_on_sequences_is_shown_where_states_are_kept():
    hybrid = plan_of(model="qwen3.5-4b", kv_cache_memory_bytes=GIB)
    assert f"may be at most {hybrid.cache.num_blocks:,}" in pool_html(hybrid)
    assert "max_num_seqs" not in pool_html(plan_of(model="llama-3.1-8b", num_gpu_blocks_override=9))


def test_what_fits_has_the_longest_and_the_given_prompt():
    plan = plan_of(model="qwen3.5-4b", kv_cache_memory_bytes=GIB)
    assert "<td>2,048</td>" in pool_html(plan)
    assert "<td>777</td>" not in pool_html(plan)
    assert "<td>777</td>" in pool_html(plan, 777)

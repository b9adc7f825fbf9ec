"""HTML of results where a program drops style sheets and tags: no two words run together."""

import re
from types import SimpleNamespace

import pytest

import workbench as wb
from workbench.views.report import Page, report_html

PLAN = wb.resolve(
    model="qwen3-next-80b-a3b",
    tensor_parallel=4,
    enable_prefix_caching=True,
    kv_cache_memory_bytes="20 GiB",
    max_model_len=32768,
)
BROKEN = wb.resolve(
    model="nemotron-3-nano-30b-a3b", platform="xpu", tensor_parallel=4, rules="before-37467"
)
STOPPED = wb.resolve(model="qwen3.5-4b", kv_cache_memory_bytes="20 GiB")
LINE = (
    "INFO 03-30 07:05:40 [config.py:228] Setting attention block size to 528 tokens to ensure that "
    "attention page size is >= mamba page size."
)
RESULTS = {
    "plan": lambda: PLAN,
    "a plan that would not start": lambda: BROKEN,
    "trace": lambda: PLAN.trace,
    "step": lambda: PLAN.trace[3],
    "sensitivity": PLAN.sensitivity,
    "hits": PLAN.hits,
    "offload": lambda: PLAN.offload(cpu_bytes_to_use=2**36),
    "refused offload": lambda: STOPPED.offload(cpu_bytes_to_use=2**36),
    "transfer": lambda: PLAN.transfer(wb.resolve(PLAN.scenario, tensor_parallel=1)),
    "chunks": PLAN.chunks,
    "flex": lambda: wb.resolve(model="llama-3.1-8b", backend="FLEX_ATTENTION").flex(2**17),
    "upgrade": lambda: wb.compare(PLAN.scenario),
    "memory": lambda: wb.resolve(model="qwen3-next-80b-a3b", device="H100").memory(),
    "progress": wb.progress,
    "a check": lambda: wb.check(3, PLAN, "aligned_block_size"),
    "sweep": lambda: wb.sweep(PLAN.scenario, tensor_parallel=(1, 2, 4)),
    "log": lambda: wb.explain_log(LINE),
    "visits": wb.stale_picture,
    "report": lambda: SimpleNamespace(_repr_html_=lambda: report_html(PLAN, Page())),
}
TOUCHING = re.compile(r"[^\s<>(\[/]((?:<[^<>]*>)+)[^\s<>.,;:)\]%]")


def bare(html: str) -> str:
    """Return HTML without what no reader sees."""
    return re.sub(r"<(style|title)>.*?</\1>", "", html, flags=re.DOTALL)


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.usefixtures("no_progress")
def test_words_stay_apart_without_tags_and_styles(name):
    text = bare(RESULTS[name]()._repr_html_())
    assert [found[0] for found in TOUCHING.finditer(text)] == []


def test_words_that_touch_are_found():
    assert TOUCHING.search("1,056 tokens</span><span>in a block")
    assert not TOUCHING.search("1,056 tokens</span> <span>in a block</span>, <b>a</b>.")

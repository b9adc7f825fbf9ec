"""The command `workbench chunks`, and the same answer as HTML and JSON."""

from __future__ import annotations

import json
from functools import partial

import pytest

import workbench as wb
from tests import commands
from tests.views.plans import EVIL, all_plans, evil_plan
from tests.views.test_html import Page
from workbench.core.chunks.connectors import CONNECTORS
from workbench.core.chunks.request import chunks
from workbench.views.chunks.html import chunks_html
from workbench.views.chunks.rows import chunks_dict

CACHED = ("-s", "enable_prefix_caching=true", "-s", "max_num_batched_tokens=8192")
run = partial(commands.run, "chunks")
published = partial(commands.published, "chunks")


def test_one_model_on_one_host():
    done = run("qwen3.5-27b", *CACHED)
    assert done.exit_code == 0
    for said in (
        "✕ a chunk of 256 tokens is not legal",
        "Legal chunks: 784, 1,568",
        "Nearest legal: 784.",
        "vLLM says: LMCache chunk size 256 must be a multiple of 784",
        "Sizes to take:",
        "LMCache 0.5.6",
    ):
        assert said in done.stdout


def test_without_prefix_caching_the_change_is_named_and_no_size():
    for engines in (("qwen3.5-4b",), ("qwen3.5-4b", "gpt-oss-20b", "--chunk", "256")):
        done = run(*engines)
        assert done.exit_code == 0
        title, _empty, verdict, first, *_more = done.stdout.splitlines()
        assert title.startswith("LMCacheMPConnector")
        assert verdict == "✕ LMCacheMPConnector does not serve qwen3.5-4b"
        assert "[connector_state_mode]" in first
        assert "turn prefix caching on" in first
        assert "tested remedy for qwen3.5-4b: enable_prefix_caching = yes" in done.stdout
        for wrong in ("8,650,752", "262,144", "Sizes to take", "Nearest legal", "Legal chunks"):
            assert wrong not in done.stdout


def test_prefill_on_four_ranks_and_decode_on_eight():
    engines = [f"qwen3-next-80b-a3b,tensor_parallel={ranks}" for ranks in (4, 8)]
    found = published(*engines, *CACHED, "-s", "rules=0.33", "--chunk", "1920")
    assert found["is_legal"]
    assert found["unit_tokens"] == 960
    assert [one["unit_tokens"] for one in found["engines"]] == [320, 192]
    assert [pair["is_legal"] for pair in found["pairs"]] == [False, False]
    assert found["pairs"][0]["remedies"]
    assert [problem["code"] for problem in found["problems"]][-1] == "chunks_not_shared"


def test_two_models_and_one_server():
    found = published("qwen3.5-27b", "gpt-oss-20b", *CACHED, "--chunk", "1000")
    assert not found["is_legal"]
    assert found["nearest"] == [784, 1568]
    assert {one["size"] for one in found["costs"]} >= {784}


def test_what_is_wrong_is_named():
    for arguments, words in (
        (("qwen3.5-27b,tensor_paralel=2",), "tensor_parallel"),
        (("qwen3.5-27b", "--connector", "LMCache"), "LMCacheMPConnector"),
        (("qwen3.5-27b", "--chunk", "0"), "chunk_tokens"),
        ((",tensor_parallel=2",), "Invalid engine"),
    ):
        done = run(*arguments)
        assert done.exit_code == 2
        assert "Traceback" not in done.output
        assert words in done.stderr


@pytest.mark.sampled(1)
@pytest.mark.parametrize("connector", CONNECTORS)
def test_every_plan_has_an_answer_in_every_form(connector):
    for plan in all_plans()[::2]:
        found = chunks([plan, plan], connector=connector)
        assert json.loads(json.dumps(chunks_dict(found)))["connector"] == connector
        assert connector in Page(chunks_html(found)).words
        assert connector in repr(found)


def test_names_are_escaped():
    assert EVIL not in chunks_html(chunks([evil_plan(), evil_plan()]))


def test_a_plan_answers_alone_and_with_others():
    plan = wb.resolve(model="llama-3.1-8b")
    assert plan.chunks().legal_sizes == wb.chunks([plan]).legal_sizes
    assert len(plan.chunks(plan, chunk_tokens=512).members) == 2

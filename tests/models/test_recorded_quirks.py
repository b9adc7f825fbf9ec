"""Windows that a release counts otherwise than config.json, and diffusion models, held to vLLM."""

from __future__ import annotations

import pytest

from tests.models.recorded_coverage import covered
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve


def recorded_plan(rules, architecture, **changes):
    answer = next(
        one for one in covered() if (one["rules"], one["architecture"]) == (rules, architecture)
    )
    settings = {"compute_capability": "9.0", **answer["arguments"], **changes}
    return resolve(Scenario(model=answer["config"], rules=rules, **settings)), answer


@pytest.mark.parametrize("architecture", ["Cohere2ForCausalLM", "Cohere2MoeForCausalLM"])
@pytest.mark.parametrize(("rules", "window"), [("0.23", 4096), ("0.33", 4097)])
def test_0_33_counts_the_own_token_besides_the_window(rules, window, architecture):
    plan, answer = recorded_plan(rules, architecture)
    found = {group.spec.window_tokens for group in plan.built_cache().groups}
    assert found == {None, window}
    assert answer["config"]["sliding_window"] == 4096
    assert plan.built_cache().max_concurrency == answer["max_concurrency"]


DIFFUSION = ("0.33", "DiffusionGemmaForBlockDiffusion")


def test_a_diffusion_model_takes_few_sequences_and_no_flashinfer():
    plan, _answer = recorded_plan(*DIFFUSION)
    assert (plan.max_num_seqs, plan.backend) == (8, "FLASH_ATTN")
    assert recorded_plan(*DIFFUSION, max_num_seqs=100)[0].max_num_seqs == 100
    refused, _answer = recorded_plan(*DIFFUSION, backend="FLASHINFER")
    assert refused.errors[0].vllm_text.startswith("FlashInfer does not support DiffusionGemma's")


def test_most_recorded_answers_hold_the_concurrency_and_the_backends():
    assert sum("max_concurrency" in answer for answer in covered()) >= 469

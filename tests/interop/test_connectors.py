"""KV connectors as commands and logs name them."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.interop.exchange import from_vllm_command
from workbench.interop.logs.facts import entries, logged_fields, unfollowed

SERVE = "vllm serve Qwen/Qwen3.5-4B"
NIXL = '\'{"kv_connector": "NixlConnector", "kv_role": "kv_both"}\''
LINE = "{{'model': 'Qwen/Qwen3.5-4B', {}}}"


@pytest.mark.parametrize(
    ("words", "connector"),
    [
        (f"--kv-transfer-config {NIXL}", "NixlConnector"),
        ("--kv-transfer-config.kv_connector LMCacheConnectorV1", "LMCacheConnectorV1"),
        ("--kv-offloading-size 5", "OffloadingConnector"),
        ("--kv-offloading-size 5 --kv-offloading-backend lmcache", "LMCacheMPConnector"),
    ],
)
def test_a_connector_is_read_however_it_is_chosen(words, connector):
    assert from_vllm_command(f"{SERVE} {words}").scenario.kv_connector == connector


def test_the_simple_offload_is_another_connector():
    command = f"VLLM_USE_SIMPLE_KV_OFFLOAD=1 {SERVE} --kv-offloading-size 5"
    assert from_vllm_command(command).scenario.kv_connector == "SimpleCPUOffloadConnector"


def test_a_connector_of_another_package_is_noted_and_not_guessed():
    words = '--kv-transfer-config \'{"kv_connector": "MyConnector"}\''
    found = from_vllm_command(f"{SERVE} {words}")
    assert found.scenario.kv_connector is None
    assert "a connector that is not known here" in found.notes[0]


@pytest.mark.parametrize(
    "printed",
    [
        "KVTransferConfig(kv_connector='NixlConnector', engine_id='x', kv_role='kv_both')",
        "{'kv_connector': 'NixlConnector', 'kv_role': 'kv_both'}",
    ],
)
def test_a_log_prints_it_in_two_forms(printed):
    values = entries(LINE.format(f"'kv_transfer_config': {printed}"))
    assert logged_fields(values)["kv_connector"] == "NixlConnector"
    assert unfollowed(values) == ()


def test_what_a_log_offloads_has_a_connector_too():
    values = entries(LINE.format("'kv_offloading_size': 16.0"))
    assert logged_fields(values)["kv_connector"] == "OffloadingConnector"
    (note,) = unfollowed(values)
    assert "`workbench offload` counts" in note


def test_another_log_names_a_connector_that_is_not_known():
    values = entries(LINE.format("'kv_transfer_config': {'kv_connector': 'MyConnector'}"))
    assert "kv_connector" not in logged_fields(values)
    assert "not known here" in unfollowed(values)[0]


def test_the_command_of_a_plan_names_it_again():
    plan = wb.resolve(model="qwen3.5-4b", kv_connector="NixlConnector")
    assert from_vllm_command(plan.to_vllm_command()).scenario.kv_connector == "NixlConnector"


def test_windows_are_full_attention_next_to_a_connector_of_one_group():
    one, own = (
        wb.resolve(model="gemma-3-27b", rules="0.33", kv_connector=name)
        for name in ("LMCacheConnectorV1", "OffloadingConnector")
    )
    assert len(one.built_cache().groups) == 1 < len(own.built_cache().groups)
    assert one.chunks().connector.name == "LMCacheConnectorV1"


def test_it_keeps_hashes_without_prefix_caching():
    plain = {"model": "deepseek-v4-flash", "enable_prefix_caching": False, "rules": "0.33"}
    alone, other = wb.resolve(**plain), wb.resolve(**plain, kv_connector="NixlConnector")
    hashes = [plan.built_cache().hash_block_size for plan in (other, alone)]
    assert hashes[0] < hashes[1] == alone.built_cache().scheduler_block_size


@pytest.mark.parametrize(("rules", "left"), [("0.23", "TRITON_ATTN"), ("0.33", None)])
def test_it_rules_out_backends_of_rocm(rules, left):
    queried = {"model": "qwen3-8b", "device": "MI300X", "rules": rules}
    plain, other = wb.resolve(**queried), wb.resolve(**queried, kv_connector="NixlConnector")
    assert plain.backend == "ROCM_ATTN"
    assert other.backend == (left or "ROCM_AITER_UNIFIED_ATTN")

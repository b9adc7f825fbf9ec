"""Allowed values of the scenario fields: words, ranges and sizes, with their checks."""

from __future__ import annotations

import re
from collections.abc import Collection

from workbench.core.dtypes import MODEL_DTYPES, STATE_DTYPES
from workbench.core.errors import ScenarioError, shown, unknown_name_message
from workbench.core.groups.layer_specs import WINDOWS
from workbench.core.groups.of_plan import NAMES_OF_0_23
from workbench.core.platforms import PLATFORMS
from workbench.core.rules import RULE_SETS
from workbench.core.settings import Settings
from workbench.memory_size import SMALLEST_BARE, parse_bytes

MAX_TOKENS = 2**31 - 1
MAX_BYTES = 2**50
RANGES: dict[str, tuple[int, int]] = {
    "tensor_parallel": (1, 1024),
    "block_size": (1, MAX_TOKENS),
    "mamba_block_size": (1, MAX_TOKENS),
    "max_model_len": (1, MAX_TOKENS),
    "max_num_batched_tokens": (1, MAX_TOKENS),
    "max_num_seqs": (1, MAX_TOKENS),
    "num_speculative_tokens": (0, 1024),
    "kv_cache_memory_bytes": (0, MAX_BYTES),
    "device_memory_bytes": (SMALLEST_BARE, MAX_BYTES),
    "weights_bytes": (0, MAX_BYTES),
    "activation_bytes": (0, MAX_BYTES),
    "cuda_graph_bytes": (0, MAX_BYTES),
    "num_gpu_blocks_override": (1, MAX_TOKENS),
    "hidden_state_layers": (0, 1024),
    "flex_attn_block_m": (-MAX_TOKENS, MAX_TOKENS),
    "flex_attn_block_n": (-MAX_TOKENS, MAX_TOKENS),
    "flex_attn_q_block_size": (-MAX_TOKENS, MAX_TOKENS),
    "flex_attn_kv_block_size": (-MAX_TOKENS, MAX_TOKENS),
}
"""Field -> smallest and largest allowed value (`max_model_len` also takes -1: the engine's).

vLLM does not check a range of the flex sizes; the plan shows what zero and negative ones cause.
"""
BYTES = tuple(field for field in RANGES if field.endswith("_bytes"))
"""Fields that also take a size with its unit, such as "20 GiB"."""
RANKS = "kv_cache_memory_bytes_by_rank"
"""The field with one such size per rank."""
SKIPPED = "kv_cache_dtype_skip_layers"
"""The field with the numbers of layers, or the word for all sliding ones."""
SMALLEST_SHARE = 0.01
SHARES = ("gpu_memory_utilization",)
"""Fields that are a share of something: above 0, at most 1."""
VERSION = r"\d{1,4}\.\d{1,4}([.+-].*)?"
"""What a `torch_version` looks like: "2.9", "2.9.1+cu130", "2.9.0.dev20250901"."""


def allowed_values(field: str, rules: str = "0.23") -> tuple[str, ...] | None:
    """Return the words that a field accepts (without null); None for fields of another kind."""
    if field == "backend":
        table = RULE_SETS[rules].backends
        return tuple(name for name, backend in table.items() if backend.is_selectable)
    if field == "mamba_cache_mode":
        return RULE_SETS[rules].cache_modes
    if field == "kv_cache_dtype":
        return RULE_SETS[rules].kv_cache_dtypes
    if field == "speculative_method":
        return RULE_SETS[rules].speculation.names
    if field == "kv_cache_layout":
        return (*NAMES_OF_0_23, *RULE_SETS[rules].groups.layouts.get("", ()))
    return _WORDS.get(field)


_WORDS: dict[str, tuple[str, ...]] = {
    "platform": tuple(PLATFORMS),
    "compute_capability": PLATFORMS["cuda"].capabilities,
    "dtype": MODEL_DTYPES,
    "mamba_cache_dtype": STATE_DTYPES,
    "mamba_ssm_cache_dtype": STATE_DTYPES,
}


def check_values(scenario: Settings) -> None:
    """Check that every field is a known word or a number in its range. Errors: ScenarioError."""
    _check_names(scenario)
    _check_version(scenario.torch_version)
    _check_ranges(scenario)


def _check_names(scenario: Settings) -> None:
    _require("rules", scenario.rules, RULE_SETS)
    for field in (*_WORDS, "backend", "kv_cache_dtype", "kv_cache_layout", "mamba_cache_mode"):
        value = getattr(scenario, field)
        if value is None or (field == "compute_capability" and scenario.platform != "cuda"):
            continue
        allowed = allowed_values(field, scenario.rules)
        assert allowed is not None
        _require(field, value, allowed)
    if (method := scenario.speculative_method) is not None:
        # The plan refuses a method that this version lacks, and says what to do.
        _require("speculative_method", method, speculative_methods())


def speculative_methods() -> tuple[str, ...]:
    """Return the speculative methods of all versions."""
    return tuple(
        dict.fromkeys(name for rules in RULE_SETS.values() for name in rules.speculation.names)
    )


def _check_version(version: str | None) -> None:
    if version is None or re.fullmatch(VERSION, version, re.ASCII):
        return
    raise ScenarioError(
        "wrong_type",
        f"Invalid torch_version {shown(version)}. Expected a version such as 2.9 or 2.9.1+cu130.",
        field="torch_version",
    )


def _require(field: str, value: str, allowed: Collection[str]) -> None:
    if value not in allowed:
        raise ScenarioError(
            "unknown_name", unknown_name_message(field, value, allowed), field=field
        )


def _check_ranges(scenario: Settings) -> None:
    if 0 < (device := scenario.device_memory_bytes or 0) < SMALLEST_BARE:
        parse_bytes(str(device), "device_memory_bytes")  # raises: the unit is missing
    for field, (low, high) in RANGES.items():
        value = getattr(scenario, field)
        if value is None or low <= value <= high or (field == "max_model_len" and value == -1):
            continue
        raise ScenarioError(
            "out_of_range",
            f"Invalid {field} {shown(value)}. Expected an integer from {low} to {high}. "
            f"Nearest valid value: {_nearest(field, value)}.",
            field=field,
        )
    _check_ranks(scenario)
    _check_skipped(scenario)
    for field in SHARES:
        share = getattr(scenario, field)
        if share is not None and not 0 < share <= 1:
            raise ScenarioError(
                "out_of_range",
                f"Invalid {field} {shown(share)}. Expected above 0 and at most 1. "
                "Nearest valid value: "
                f"{1 if share > 1 else SMALLEST_SHARE}."
                + (f" {share:g} % is {share / 100:g}." if 1 < share <= 100 else ""),
                field=field,
            )


def _check_skipped(scenario: Settings) -> None:
    for layer in scenario.kv_cache_dtype_skip_layers or ():
        if re.fullmatch(r"\d{1,5}", layer, re.ASCII) or layer == WINDOWS:
            continue
        raise ScenarioError(
            "unknown_name",
            f"Invalid {SKIPPED} entry {shown(layer)}. Expected a layer number such as 0, or "
            f"{WINDOWS} for all sliding layers. Nearest valid value: "
            f"{WINDOWS if layer[:1].isalpha() else 0}.",
            field=SKIPPED,
        )


def _check_ranks(scenario: Settings) -> None:
    sizes, (low, high) = scenario.kv_cache_memory_bytes_by_rank, RANGES["kv_cache_memory_bytes"]
    if sizes is None or (sizes and all(low <= size <= high for size in sizes)):
        return
    nearest = [min(max(size, low), high) for size in sizes] or None
    raise ScenarioError(
        "out_of_range",
        f"Invalid {RANKS} {shown(sizes)}. Expected one size per rank, from {low} to {high} bytes. "
        f"Nearest valid value: {nearest}.",
        field=RANKS,
    )


def _nearest(field: str, value: int) -> int:
    """Return the nearest value in range; for `block_size` one that attention backends accept."""
    low, high = RANGES.get(field, (1, MAX_TOKENS))
    inside = min(max(value, low), high)
    return max(16, inside // 16 * 16) if field == "block_size" else inside


def nearest_hint(field: str | None, given: object) -> str:
    """Return the integer nearest to a value that is not one; empty if it is not a number."""
    try:
        value = int(float(given))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return ""
    return f" Nearest valid value: {_nearest(field or '', value)}."

"""What values of a message mean: fields of a scenario, and what to change."""

import re
from collections.abc import Callable, Mapping
from math import floor
from typing import Any

from workbench.core.arithmetic import GIB
from workbench.interop.logs.facts import command_facts, entries, logged_fields
from workbench.interop.logs.message import Values

BACKENDS = {
    "Flash Attention": "FLASH_ATTN",
    "FlashInfer": "FLASHINFER",
    "Triton": "TRITON_ATTN",
    "Triton MLA": "TRITON_MLA",
}
PRINTED_GDN_KERNELS = {"FlashInfer": True, "Triton/FLA": False, "CuteDSL": False}
"""Kernel as vLLM prints it -> `gdn_flashinfer_prefill`; other devices have others."""
REASONS = re.compile(r"(\w+): \[([^\]]*)\]")
"""A backend and what speaks against it."""
MOST_RANKS = 64
"""Of one engine: larger divisors of heads are not listed."""
WASTED_GIB = 0.5
"""A reserve for graphs that is larger than they are by so much is worth a change."""


def _backend_fields(values: Values) -> dict[str, Any]:
    name = BACKENDS.get(str(values["backend"]), values["backend"])
    first = re.match(r"\W*(\w+)", str(values.get("candidates", "")))
    # The platform orders the list: FlashInfer is first on compute capability 10 only.
    known = {"compute_capability": "10.0"} if first and first.group(1) == "FLASHINFER" else {}
    return {"backend": name, **known}


def _capability(values: Values) -> dict[str, Any]:
    """Return the compute capability of `sm90` or `sm103`; the last digit is the minor one."""
    digits = str(values["arch"])
    return {"compute_capability": f"{digits[:-1]}.{digits[-1]}"}


def _in_use(values: Values) -> int:
    """Return the bytes of the cache, which older versions print as they are."""
    if "available_bytes" in values:
        return int(values["available_bytes"])
    return round(float(values["available_gib"]) * GIB)


def _of_whole_device(values: Values, _scenario: Values) -> str:
    used, whole = _in_use(values) / GIB, values["device_bytes"] / GIB
    if whole <= used:
        return "The device has no more memory than the cache already has."
    return (
        f"--kv-cache-memory-bytes {values['device_bytes']} takes the rest of the device: "
        f"{whole:.2f} GiB instead of {used:.2f}. "
        f"Within --gpu-memory-utilization it would be {values['share_bytes']}."
    )


def _of_graphs(values: Values, _scenario: Values) -> str:
    saved = values["estimated_gib"] - values["graphs_gib"]
    if saved < 0:
        return (
            f"The graphs took {-saved:.2f} GiB more than was reserved. If memory runs out later, "
            "lower --gpu-memory-utilization."
        )
    if saved < WASTED_GIB:
        return ""
    return (
        f"{saved:.2f} GiB were reserved and not used. The cache gets them with a higher "
        "--gpu-memory-utilization, or with --kv-cache-memory-bytes."
    )


def _hash_unit(values: Values, scenario: Values) -> str:
    if not scenario.get("enable_prefix_caching"):
        return (
            "--enable-prefix-caching aligns the groups; tab `Offload and transfer` lists sizes "
            "that work."
        )
    size = values["group_block_size"]
    return (
        f"Prefix caching is on already, so the hash unit was set or a group of {size} tokens is "
        f"smaller than it: set --prefix-match-unit (before 0.33: --hash-block-size) to a divisor "
        f"of {size}, or omit it; else use a connector without hashes of this group."
    )


def _free_share(values: Values, _scenario: Values) -> str:
    free, total = values["free_gib"], values["total_gib"]
    return (
        f"End the process that holds {total - free:.2f} GiB (`nvidia-smi` lists it), or set "
        f"--gpu-memory-utilization {floor(100 * free / (total or 1)) / 100:.2f} or less."
    )


def _divisors(values: Values, _scenario: Values) -> str:
    heads = int(values["heads"])
    sizes = [str(size) for size in range(1, min(heads, MOST_RANKS) + 1) if heads % size == 0]
    return f"Use a --tensor-parallel-size that divides {heads}: {', '.join(sizes)}."


def _fewest_reasons(values: Values, _scenario: Values) -> str:
    """Return the backends that least speaks against, and what is to change for them."""
    found = REASONS.findall(str(values.get("refused", "")))
    fewest = min((why.count(", ") for _, why in found), default=0)
    nearest = "; ".join(f"{name} ({why})" for name, why in found if why.count(", ") == fewest)
    least = f"The fewest reasons are against {nearest}. " if nearest else ""
    return f"{least}Change what the reasons name: KV dtype, head size, block size or device."


FIELDS_OF: Mapping[str, Callable[[Values], Mapping[str, Any]]] = {
    "command": lambda values: command_facts(str(values["command"]))[0],
    "arguments": lambda values: logged_fields(entries(values["arguments"])),
    "all_arguments": lambda values: {
        **logged_fields(entries(values["arguments"])),
        "block_size": None,  # 16 is a default there
    },
    "config": lambda values: logged_fields(entries(values.get("config", ""))),
    "backend": _backend_fields,
    "gdn_kernel": lambda values: {
        "gdn_flashinfer_prefill": PRINTED_GDN_KERNELS.get(values["kernel"])
    },
    "batch_invariance": lambda values: {
        "enable_prefix_caching": False,
        "batch_invariant": True if "backends" in values else None,
    },
    "capability": _capability,
    # An explicit size of 0 is as good as none, a measured one is not.
    "available": lambda values: (
        {"kv_cache_memory_bytes": _in_use(values)}
        if values["available_gib"] > 0
        else {"kv_cache_memory_bytes_by_rank": (0,)}
    ),
    "in_use": lambda values: {"kv_cache_memory_bytes": _in_use(values)},
    "flex_tile": lambda values: {
        "backend": "FLEX_ATTENTION",
        f"flex_attn_block_{values['side']}": values["tile"],
        "batch_invariant": True,
    },
    "selector": lambda values: logged_fields(
        {"device_config": values["device"], **entries(values.get("selector", ""))}
    ),
}
"""Name in the declaration of a message -> the fields that its values give."""

ADVICE: Mapping[str, Callable[[Values, Values], str]] = {
    "estimated_length": lambda values, _scenario: f"Set --max-model-len {values['estimated']}.",
    "rest_of_device": _of_whole_device,
    "reserved_graphs": _of_graphs,
    "hash_unit": _hash_unit,
    "free_share": _free_share,
    "divisors": _divisors,
    "fewest_reasons": _fewest_reasons,
}
"""Name in the declaration of a message -> what to change, by its values and the scenario."""

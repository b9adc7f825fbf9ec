"""The messages about a device's memory: what it was spent on, and what was left for the cache."""

from workbench.core.arithmetic import GIB
from workbench.core.capacity.memory_estimate import loaded_weights
from workbench.core.plan import Plan
from workbench.interop.logs.message import Compare, Values, message

LOADING = 0.025
"""Share of the weights that kernels may add or drop while they are loaded: the most of all starts
in `tests/data/startup_memory.jsonl` whose experts are not padded."""
WASTED_GIB = 0.5
"""A reserve for graphs that is larger than they are by so much is worth a change."""


def _loaded_gib(plan: Plan) -> float | None:
    found = loaded_weights(plan)
    return found[0] / GIB if found else None


def _near_weights(plan: Plan, gib: float) -> str | None:
    """Return why loaded weights are those of the plan, where they are not equal."""
    found = [size / GIB for size in loaded_weights(plan)]
    if round(gib, 2) in [round(size, 2) for size in found]:
        return "It is another pipeline stage's."
    if any(abs(gib - size) <= LOADING * size for size in found):
        return (
            f"Kernels repack and pad weights while they are loaded: {LOADING:.1%} in either "
            "direction is usual."
        )
    return None


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


MEMORY = (
    message(
        "weights",
        r"(?:Model loading|Loading model weights) `took `(?P<weights_gib>[\d.]+) Gi?B",
        "Weights on one rank, with those of a drafter.",
        compares=(
            Compare(
                "weights_gib",
                of=_loaded_gib,
                rules=(),
                unit="GiB",
                digits=2,
                tolerance=0.011,
                otherwise=_near_weights,
                of_checkpoint=True,
                unknown="config.json does not tell the weights",
            ),
        ),
        is_distinct=False,
    ),
    message(
        "available_memory",
        r"`Available KV cache memory`: (?P<available_gib>-?[\d.]+) GiB",
        "What is left for the cache on one rank: memory * utilization - weights - activations.",
        "For more: a higher --gpu-memory-utilization, fewer tokens per step, less model per rank.",
        # An explicit size of 0 is as good as none, a measured one is not.
        fields=lambda values: (
            {"kv_cache_memory_bytes": round(values["available_gib"] * GIB)}
            if values["available_gib"] > 0
            else {"kv_cache_memory_bytes_by_rank": (0,)}
        ),
    ),
    message(
        "reserved_memory",
        r"reserved (?P<reserved_gib>[\d.]+) GiB `memory for KV Cache as specified` by "
        r"kv_cache_memory_bytes",
        "--kv-cache-memory-bytes is set, so nothing is measured.",
        fields=lambda values: {"kv_cache_memory_bytes": round(values["reserved_gib"] * GIB)},
    ),
    message(
        "graphs",
        r"`Graph capturing finished` in [\d.]+ secs, took (?P<graphs_gib>-?[\d.]+) GiB",
        "Memory of the captured graphs.",
    ),
    message(
        "graph_profiling",
        r"`CUDA graph memory profiling is enabled`\b.*?utilization="
        r"(?P<gpu_memory_utilization>[\d.]+) is equivalent to "
        r"--gpu-memory-utilization=(?P<equivalent>[\d.]+) without",
        "Graphs are estimated before the cache is sized, and the cache gets so much less: from "
        "0.21 on the cache is smaller at the same --gpu-memory-utilization.",
        "For the cache of before, raise --gpu-memory-utilization as the line says.",
    ),
    message(
        "graphs_not_profiled",
        r"`CUDA graph memory profiling` (?:is disabled|will be enabled)",
        "The cache takes memory that the captured graphs need as well; this was so before 0.21.",
        "Lower --gpu-memory-utilization if the capture runs out of memory.",
        is_distinct=False,
    ),
    message(
        "graphs_estimated",
        r"`Estimated CUDA graph memory`: (?P<graphs_gib>-?[\d.]+) GiB total",
        "What the graphs will take, measured on a few; from 0.21 on the cache gets so much less.",
    ),
    message(
        "graph_pool",
        r"`CUDA graph pool memory`: (?P<graphs_gib>-?[\d.]+) GiB \(actual\), "
        r"(?P<estimated_gib>-?[\d.]+) GiB \(estimated\)",
        "What the graphs took, and what was reserved for them before the cache was sized.",
        _of_graphs,
    ),
    message(
        "memory_summary",
        r"Free memory on device \((?P<free_gib>[\d.]+)/(?P<total_gib>[\d.]+) GiB\) on startup\. "
        r"`Desired GPU memory utilization is` \((?P<gpu_memory_utilization>[\d.]+), "
        r"(?P<requested_gib>[\d.]+) GiB\)\. Actual usage is .{0,300}? GiB for CUDAGraph memory\. "
        r"Replace gpu_memory_utilization config with \x60?--kv-cache-memory=(?P<share_bytes>-?\d+)"
        r"\b.{0,200}?--kv-cache-memory=(?P<device_bytes>-?\d+)\b.{0,200}?"
        r"Current kv cache memory in use is "
        r"(?:(?P<available_gib>[\d.]+) GiB|(?P<available_bytes>\d+) bytes)",
        "What the device's memory was spent on, after the graphs were captured.",
        _of_whole_device,
        fields=lambda values: {"kv_cache_memory_bytes": _in_use(values)},
    ),
)
"""Messages about memory, in the order of a start."""

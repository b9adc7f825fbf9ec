"""Floats that a KV cache may be kept in: the model's dtype alone, in 0.33.

Source: `VllmConfig._reject_mismatched_float_kv_cache`.
"""

from workbench.core.working_plan import WorkingPlan


def float_kv_cache_dtype(run: WorkingPlan) -> None:
    """Refuse a float KV dtype other than the model's (0.33)."""
    if (text := mismatched_float(run, run.kv_cache_dtype)) is None:
        return
    explicit = run.kv_cache_dtype
    raise run.refusal(
        "float_kv_cache_dtype",
        operands={"kv_cache_dtype": explicit, "dtype": run.model_dtype},
        candidates=[{"kv_cache_dtype": "auto"}, {"dtype": explicit}],
        vllm_text=text,
    )


def mismatched_float(run: WorkingPlan, dtype: str) -> str | None:
    """Return what 0.33 says of a float KV-cache dtype other than the model's, else None."""
    if dtype not in {"float16", "bfloat16"} or dtype == run.model_dtype:
        return None
    quoted = f"`auto` or `{run.model_dtype}`" if run.model_dtype != "float32" else "`auto`"
    return (
        f'kv_cache_dtype="{dtype}" is incompatible with dtype="{run.model_dtype}". '
        f"Please set `--kv-cache-dtype` to {quoted}."
    )

"""The attention backend: chosen from the platform's list, or requested and tested."""

from collections.abc import Mapping
from dataclasses import replace

from workbench.core.backends import Backend, LayerQuery
from workbench.core.block_sizes import smallest_base
from workbench.core.groups.built_layers import quantizes_nothing
from workbench.core.groups.layer_classes import AS_THE_MODEL
from workbench.core.model import V41
from workbench.core.packing import NVFP4_DS
from workbench.core.stages.backend_requests import (
    reasons_against,
    requested_backend,
    supported_sizes,
)
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

BACKEND = Rule(
    "backend",
    "Attention backend",
    "the explicit backend, else the first of the platform's list without a refusal reason",
)
STORED_DTYPE = Rule(
    "stored_kv_cache_dtype",
    "Packed KV-cache format",
    "what the sparse backend keeps instead of the KV-cache dtype",
)
BLOCK_SIZE_REASON = ["block_size not supported"]


def attention_backends(run: WorkingPlan) -> dict[str, Backend]:
    """Return the backends for this run's platform and kind of attention that may be chosen."""
    attention = run.model.attention
    return {
        name: backend
        for name, backend in run.rules.backends.items()
        if backend.is_selectable
        and run.platform.name in backend.platforms
        and attention is not None
        and backend.is_mla == attention.use_mla
    }


def valid_backends(run: WorkingPlan, query: LayerQuery) -> tuple[str, ...]:
    """Return the platform's backends without any reason against them, in selection order first."""
    order = [*run.rules.backends.order(query), *attention_backends(run)]
    return tuple(
        name
        for name in dict.fromkeys(order)
        if not reasons_against(run, query, run.rules.backends[name])
    )


def backend_choice(run: WorkingPlan) -> None:
    """Set `run.backend` and the kernel block sizes that it supports for this model."""
    if run.model.attention is None:
        if (explicit := run.settings.backend) is not None:
            run.step(BACKEND, None, "the model has no attention layer", explicit=explicit)
        return
    query, stated = LayerQuery.of(run), run.model.stated
    if quantizes_nothing(run):  # each layer asks with its own dtype
        query = query._replace(kv_cache_dtype=AS_THE_MODEL)
    if query.attention.use_mla and query.attention.own_backend and stated is not None:
        # Dots3NoteFullAttention builds the layers of DeepSeek V2, and replaces their attention.
        inner = query._replace(attention=replace(stated, own_backend=None))
        _settle(run, inner)
        if (first := run.backend_record) is not None:
            _stored_dtype(run, inner, first)
        query = LayerQuery.of(run)
    _settle(run, query)
    chosen = run.backend_record
    if chosen is not None:
        names = (*run.rules.companions(run.model.attention).values(), chosen.name)
        run.backends = tuple(
            [(name, supported_sizes(run, query, run.rules.backends[name])) for name in names]
        )
        run.supported_kernel_block_sizes = run.backends[-1][1]
        _stored_dtype(run, query, chosen)
        _untested_device(run, query, chosen)


def _settle(run: WorkingPlan, query: LayerQuery) -> None:
    if (requested := requested_backend(run, query)) is None:
        _choose(run, query)
    else:
        _check(run, query, requested)


def _untested_device(run: WorkingPlan, query: LayerQuery, backend: Backend) -> None:
    """Warn where vLLM does not test that the kernels of the chosen backend run on the device."""
    if backend.tests_device or backend.runs_on(query):
        return
    run.problem(
        "device_not_tested",
        operands={"backend": backend.name, "compute_capability": _capability(run)},
        capabilities=backend.capabilities,
    )


def _stored_dtype(run: WorkingPlan, query: LayerQuery, backend: Backend) -> None:
    """Set the packed fp8 format that some sparse backends store, with vLLM's log line."""
    stored = backend.stored_kv_cache_dtypes.get(run.kv_cache_dtype)
    if stored is None or not backend.stored_where(query) or reasons_against(run, query, backend):
        return
    run.step(STORED_DTYPE, stored, backend=backend.name, kv_cache_dtype=run.kv_cache_dtype)
    run.kv_cache_dtype = stored
    if backend.compression:
        run.log(f"Using DeepSeek's {stored} KV cache format.")
        return
    run.log(
        f"Using {stored} KV cache format for {backend.name} backend."
        if run.rules.names_stored_dtype
        else f"Using DeepSeek's {stored} KV cache format. To use standard fp8 kv-cache format, "
        "please set `--attention-backend FLASHINFER_MLA_SPARSE`"
    )


def first_valid(run: WorkingPlan, query: LayerQuery) -> tuple[str | None, Mapping[str, list[str]]]:
    """Return the first backend without a reason against it, and the reasons against the others."""
    # all that the order and the reasons depend on
    key = query, run.float32_state, run.rules.cpu_checks_kv_cache_dtype
    return run.rules.backends.remembered(key, lambda: _first_valid(run, query))


def _choose(run: WorkingPlan, query: LayerQuery) -> None:
    chosen, reasons = first_valid(run, query)
    run.backend = chosen
    explicit = {"explicit": run.settings.backend} if run.settings.backend else {}
    run.step(
        BACKEND,
        chosen,
        platform=run.platform.name,
        compute_capability=_capability(run),
        head_size=query.attention.head_size,
        refused={name: "; ".join(why) for name, why in reasons.items()},
        **explicit,
    )
    if chosen is None:
        _none_valid(run, query, reasons)
        return
    # only backends with no other reason: without --block-size they would have been taken
    pushed_out = [name for name, why in reasons.items() if why == BLOCK_SIZE_REASON]
    if pushed_out and run.platform.name == "cuda":
        run.problem(
            "block_size_precludes_backend",
            operands={"block_size": query.block_size, "precluded": pushed_out, "used": chosen},
            names=", ".join(pushed_out),
        )


def _first_valid(run: WorkingPlan, query: LayerQuery) -> tuple[str | None, Mapping[str, list[str]]]:
    """Return the first backend without a reason against it, and the reasons against those before.

    They depend on the query, on float32 states and on what CPU checks.
    """
    reasons: dict[str, list[str]] = {}
    for name in run.rules.backends.order(query):
        against = reasons_against(run, query, run.rules.backends[name])
        if not against:
            return name, reasons
        reasons[name] = against
    return None, reasons


def _nearest_block_size(
    run: WorkingPlan, query: LayerQuery, reasons: Mapping[str, list[str]]
) -> tuple[str, tuple[Mapping[str, int], ...]]:
    """Return a hint and a nearest size for backends that only the explicit block size rules out."""
    pushed_out = [name for name, why in reasons.items() if why == BLOCK_SIZE_REASON]
    if not pushed_out or query.block_size is None:
        return "", ()
    bases = {
        name: smallest_base(supported_sizes(run, query, run.rules.backends[name]))
        for name in pushed_out
    }
    name = min(bases, key=lambda name: bases[name])
    base = bases[name]
    nearest = max(base, round(query.block_size / base) * base)
    hint = (
        f" block_size must be a positive multiple of {base} for {name}; got {query.block_size}; "
        f"nearest valid: {nearest}."
    )
    return hint, ({"block_size": nearest},)


def _none_valid(run: WorkingPlan, query: LayerQuery, reasons: Mapping[str, list[str]]) -> None:
    hint, nearest = _nearest_block_size(run, query, reasons)
    table = "; ".join(f"{name}: {', '.join(why)}" for name, why in reasons.items())
    others = valid_backends(run, query)
    none = "The platform has no backend of the kind that the model needs (MLA)"
    if others:
        none = "Nothing is tried by default"
        hint += f" {', '.join(others)} can be requested."
    run.problem(
        "no_valid_backend",
        operands={"platform": run.platform.name, "reasons": dict(reasons)},
        candidates=(*nearest, *({"backend": name} for name in others)),
        vllm_text=said(run, query),
        why=table or none,
        hint=hint,
    )


def said(run: WorkingPlan, query: LayerQuery) -> str:
    """Return the beginning of what the platform raises where it has no backend for a layer."""
    if query.attention.is_compressed:
        # Its layers choose among their own classes, and check the KV-cache dtype themselves.
        own = query.attention.compression == V41 and query.kv_cache_dtype == NVFP4_DS
        return f"{NVFP4_DS} needs the V4.1 KV records" if own else "DeepseekV4 "
    if run.platform.name == "xpu":
        return "Invalid attention backend for"
    if run.platform.name != "cpu":
        return "No valid attention backend found for"
    if run.rules.cpu_checks_kv_cache_dtype:
        if query.attention.is_sparse:
            return "Sparse Attention is not supported on CPU."
        kind = "MLA attention on CPU" if query.attention.use_mla else "the CPU attention backend"
        return f"--kv-cache-dtype {query.kv_cache_dtype} is not supported by {kind}"
    return "MLA is not supported on CPU."


def not_valid_text(run: WorkingPlan, query: LayerQuery, name: str) -> str:
    """Return the beginning of what get_attn_backend_cls raises: it prints the enum's member."""
    own = run.rules.words_of_refused.get((run.platform.name, name))
    if own or not run.platform.checks_backend:
        return own or said(run, query)
    if query.attention.canvas_tokens is not None and name == "FLASHINFER":
        return "FlashInfer does not support DiffusionGemma's mixed causal/bidirectional attention."
    return f"Selected backend AttentionBackendEnum.{name} is not valid for this configuration."


def _check(run: WorkingPlan, query: LayerQuery, name: str) -> None:
    run.backend = name
    reasons = reasons_against(run, query, run.rules.backends[name])
    run.step(
        BACKEND,
        name,
        "requested" if run.settings.backend == name else "set by the model for its heads",
        platform=run.platform.name,
        compute_capability=_capability(run),
        reasons_against=reasons,
    )
    if not reasons:
        return
    others = valid_backends(run, query)
    hint, nearest = _nearest_block_size(run, query, {name: reasons})
    run.problem(
        "backend_not_valid",
        operands={"backend": name, "reasons": reasons, "valid": list(others)},
        candidates=({"backend": None}, *({"backend": other} for other in others), *nearest),
        vllm_text=(
            not_valid_text(run, query, name)
            if not query.attention.is_compressed
            else said(run, query)
            if run.rules.backends[name].compression
            else f"{name} is not a DeepSeek V4 attention backend. "
        ),
        why=", ".join(reasons),
        others=", ".join(others) or "none",
        hint=hint,
    )


def _capability(run: WorkingPlan) -> str | None:
    return None if run.capability is None else ".".join(map(str, run.capability))

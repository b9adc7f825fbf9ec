"""Bytes of attention cache: of one token, of a page, and of layers with two dtypes.

Source: `kv_cache_dtype_skip_layers` in the alignment of 0.23 (packed caches only), and
`Platform._align_heterogeneous_kv_block_size` of 0.33 (phase 3, any quantized cache).
"""

from dataclasses import replace
from math import lcm

from workbench.core.arithmetic import cdiv
from workbench.core.block_sizes import smallest_base
from workbench.core.dtypes import FLOAT_BYTES, PACKED_DTYPES, TURBOQUANT_BITS
from workbench.core.groups.built_layers import quantizes_nothing, skips_layers, unquantized_layers
from workbench.core.groups.cache_spec import ATTENTION_SPECS, MLA_SPEC
from workbench.core.groups.layer_classes import AS_THE_MODEL, counted_dtype
from workbench.core.groups.layer_specs import layer_specs, window_block
from workbench.core.model import FULL, SLIDING, SSM, Attention
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

TOKEN_BYTES = Rule(
    "attention_bytes_per_token",
    "Attention bytes of one token",
    "kv_heads * (head_size + value_head_size) * bytes; MLA: head_size * bytes; packed types: see "
    "operands",
    "bytes",
)


def attention_token_bytes(run: WorkingPlan) -> None:
    """Set `attention_bytes_per_token`."""
    attention = run.model.attention
    if attention is None or run.is_uncached:
        return
    if run.model.is_hybrid:  # aligned with the heads of ModelConfig, whatever its layers have
        attention = run.model.counted or attention
    kv_heads = attention.kv_heads_per_rank(run.settings.tensor_parallel)
    run.attention_bytes_per_token, formula = run.rules.token_bytes(
        attention, kv_heads, run.kv_cache_dtype, run.model_dtype, run.backend
    )
    _check_bytes(run, attention, run.attention_bytes_per_token)
    if not run.model.is_hybrid:  # of one head size: a layer's page may have another number
        formula += "; only states would be aligned with it"
    run.step(
        TOKEN_BYTES,
        run.attention_bytes_per_token,
        formula,
        kv_heads_per_rank=kv_heads,
        head_size=attention.head_size,
        kv_cache_dtype=run.kv_cache_dtype,
        model_dtype=run.model_dtype,
        use_mla=attention.use_mla,
    )


def _check_bytes(run: WorkingPlan, attention: Attention, per_token: int) -> None:
    """Refuse heads so small that nothing is left of a token. Errors: Refused."""
    if per_token:
        return
    raise run.refusal(
        "head_size_too_small",
        operands={"kv_cache_dtype": run.kv_cache_dtype, "head_size": attention.head_size},
    )


def attention_page(run: WorkingPlan) -> None:
    """Set `attention_page_size_bytes`: what a layer (of full attention if any) will request."""
    attention = run.model.attention
    if attention is None or run.is_uncached:
        return
    if attention.is_compressed:
        if run.backend is not None:
            _check_vectors(run)
        # The largest page of a cache with every token; a compressed one has fewer vectors.
        pages = {spec.kind: spec.page_size_bytes for spec in layer_specs(run).of_kinds}
        run.attention_page_size_bytes = max(
            (page for kind, page in pages.items() if kind == MLA_SPEC), default=max(pages.values())
        )
        return
    layers = [layer for layer in run.model.layers if layer.kind != SSM]
    full = [layer for layer in layers if layer.kind == FULL]
    largest = (layer for layer in full if layer.head_size is None)
    first = next(largest, (full or layers)[0])
    attention = attention.of_layer(first)
    per_token, _formula = run.rules.layer_token_bytes(
        attention,
        attention.kv_heads_per_rank(run.settings.tensor_parallel),
        counted_dtype(
            run.rules,
            first.kind,
            AS_THE_MODEL if quantizes_nothing(run) else run.kv_cache_dtype,
        ),
        run.model_dtype,
        run.backend,
    )
    _check_bytes(run, attention, per_token)  # a release may build heads of another size
    page, slides = run.block_size * per_token, first.kind == SLIDING and first.cache is None
    if slides and not first.makes_spec and run.rules.groups.windows_choose_blocks:
        page = window_block(run, per_token, run.supported_kernel_block_sizes) * per_token
        page = max(page, run.skip_page_size_padded or 0)
    run.attention_page_size_bytes = page


def _check_vectors(run: WorkingPlan) -> None:
    """Refuse blocks that hold no vector of compressed tokens; vLLM divides by their number."""
    caches = (layer.cache for layer in run.model.layers if layer.cache is not None)
    tokens = max(cache.tokens_per_state for cache in caches)
    if run.block_size < tokens:
        raise run.refusal(
            "block_without_vectors",
            operands={"block_size": run.block_size, "tokens_per_vector": tokens},
            vllm_text="integer division or modulo by zero" if run.rules.groups.layouts else "",
        )


def skipped_kinds(run: WorkingPlan) -> None:
    """Refuse TurboQuant with layers that are skipped by their kind (0.23)."""
    # EngineArgs.create_engine_config sorts the list, with both ends of the model, by number.
    if run.kv_cache_dtype not in TURBOQUANT_BITS:
        return
    given = run.settings.kv_cache_dtype_skip_layers or ()
    if not (kinds := [name for name in given if not name.isdigit()]):
        return
    numbers = tuple(name for name in given if name.isdigit()) or None
    raise run.refusal(
        "skipped_kind_with_turboquant",
        operands={"kinds": kinds, "kv_cache_dtype": run.kv_cache_dtype},
        candidates=({"kv_cache_dtype_skip_layers": numbers},),
        kinds=kinds,
    )


COMMON_TOKEN_BYTES = Rule(
    "attention_bytes_per_token",
    "Attention bytes of one token, packed and plain",
    "lcm(bytes of a packed token, bytes of a plain one)",
    "bytes",
)
SHARED_PAGE = Rule(
    "shared_page_block_size",
    "Phase 3: block size with two dtypes",
    "a * ceil(max(q * s, padded mamba page) / (a * p)), p and q the bytes of a quantized and of a "
    "plain token, s the smallest kernel block, a = max(s, block_size)",
    "tokens",
)


def common_token_bytes(run: WorkingPlan) -> None:
    """Count what both kinds divide for a packed cache of a hybrid with plain layers."""
    packed = run.kv_cache_dtype in PACKED_DTYPES
    attention, before = run.model.attention, run.attention_bytes_per_token
    if attention is None or before is None or not packed or attention.use_mla:
        return
    if not run.model.is_hybrid or not skips_layers(run):
        return
    plain = _plain_token_bytes(run)
    # lcm, not max: a plain page is often not a multiple of a packed one, and pages of which neither
    # divides the other cannot share blocks (Platform._align_hybrid_block_size).
    run.attention_bytes_per_token = lcm(before, plain)
    run.step(COMMON_TOKEN_BYTES, run.attention_bytes_per_token, packed=before, plain=plain)


def shared_page(run: WorkingPlan) -> None:
    """Run phase 3: raise the block until a quantized page covers a plain one. Not on CPU."""
    # A pipeline stage may have no layer with a backend, and a model none but its drafter's.
    # CpuPlatform.update_block_size_for_backend has no such phase.
    has_layers = run.backends and run.model.attention is not None
    if not has_layers or run.platform.name == "cpu" or not skips_layers(run):
        return
    primary, plain = _quantized_token_bytes(run), _plain_token_bytes(run)
    # Equal pages per token need nothing: block sizes that differ by an integer factor are unified
    # later (Platform._align_heterogeneous_kv_block_size, 0.33).
    if plain <= primary:
        return
    smallest, before = smallest_base(run.first_backend[1]), run.block_size
    unit = max(smallest, before)
    # Phase 2 may have padded a state to a page that is larger than both.
    # A plain page counts with the smallest kernel block: it may keep fewer tokens than others.
    required = max(plain * smallest, run.mamba_page_size_padded or 0)
    needed = unit * cdiv(required, unit * primary)
    if before < needed:
        run.block_size = needed
        run.log(
            f"Setting attention block size to {needed} tokens so the quantized primary KV page "
            "covers the higher-precision padded-spec page."
        )
    shared = run.skip_page_size_padded = run.block_size * primary
    if run.mamba_page_size_padded is not None:
        run.mamba_page_size_padded = shared
    run.step(
        SHARED_PAGE,
        run.block_size,
        "raised" if before < needed else "kept",
        before=before,
        p=primary,
        q=plain,
        s=smallest,
        shared_page_bytes=shared,
        skipped_layers=sorted(unquantized_layers(run)),
    )


def windows_in_shared_page(run: WorkingPlan) -> None:
    """Refuse windows whose smallest block is larger than the page that all layers share (0.33)."""
    # MiMo-V2's windows have more heads than its other layers, which that page is counted for.
    shared = run.skip_page_size_padded
    if shared is None or run.grouping_error is not None:
        return
    specs = layer_specs(run)
    windows = (
        spec
        for (layer, _), spec in zip(specs.classes.kinds, specs.of_kinds, strict=True)
        if spec.kind == ATTENTION_SPECS[SLIDING] and not (layer.makes_spec or layer.cache)
    )
    page = max((one.page_size_bytes for one in windows), default=0)
    if page <= shared:
        return
    run.problem(
        "windows_outgrow_shared_page",
        operands={"page_size_bytes": page, "skip_page_size_padded": shared},
    )


def _plain_token_bytes(run: WorkingPlan) -> int:
    attention = run.model.largest_attention
    assert attention is not None
    kv_heads = attention.kv_heads_per_rank(run.settings.tensor_parallel)
    # FullAttentionSpec without a size of values of its own, whatever the layers are
    return kv_heads * 2 * attention.head_size * FLOAT_BYTES[run.model_dtype]


def _quantized_token_bytes(run: WorkingPlan) -> int:
    """Return the bytes of one quantized token, as the first backend packs a plain layer."""
    attention, (backend, _sizes) = run.model.largest_attention, run.first_backend
    assert attention is not None
    kv_heads = attention.kv_heads_per_rank(run.settings.tensor_parallel)
    return run.rules.layer_token_bytes(
        replace(attention, use_mla=False, value_head_size=None),
        kv_heads,
        run.kv_cache_dtype,
        run.model_dtype,
        backend.name,
    )[0]

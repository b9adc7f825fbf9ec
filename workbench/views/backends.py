"""The backends of a version: one record whole, or all of them as a table; text and JSON."""

from collections.abc import Iterable, Mapping
from typing import Any

from workbench.core.backends import Backend, Condition, always, never
from workbench.core.block_sizes import BlockSize
from workbench.core.model import Attention
from workbench.core.rule_set import RuleSet
from workbench.views.text import aligned

HEAD_SIZE, LATENT_SIZE = 128, 576
MODEL_DTYPE = "bfloat16"
ORDER = "order of choice"


def backend_record(rules: RuleSet, name: str) -> dict[str, Any]:
    """Return everything that a version says about a backend: fact -> text, list or mapping.

    What does not hold for the backend is omitted. Errors: ScenarioError for an unknown name.
    """
    backend = rules.backends[name]
    multiple = 1 if backend.cache is None else backend.cache.block_multiple
    facts = {
        "name": name,
        "name in the log": backend.reported_name,
        "platforms": list(backend.platforms),
        "kind": _kind(backend),
        ORDER: _order(backend),
        "on request": _words(backend.on_request),
        "kernel block sizes": _block_sizes(backend),
        "takes exact block sizes only": backend.exact_block_size,
        "preferred block size": _preferred(backend),
        "head sizes": str(backend.head_sizes),
        "more head sizes": _extra(backend.large_head_sizes),
        "model dtypes": list(backend.dtypes),
        "KV-cache dtypes": list(backend.kv_cache_dtypes),
        "more KV-cache dtypes": _extra(backend.extra_kv_cache_dtypes),
        "compute capabilities": str(backend.capabilities),
        "attention sinks": _words(backend.supports_sinks),
        "bidirectional prefixes": _words(backend.supports_mm_prefix),
        "batch-invariant": backend.batch_invariant,
        "may refuse besides": None if backend.own_reason is None else _first(backend.own_reason),
        "CUDA graphs": backend.cuda_graphs,
        "CUDA graphs elsewhere": _extra(backend.cuda_graphs_where),
        "cache": None if backend.cache is None else f"[{', '.join(backend.cache.axes)}]",
        "cache blocks are multiples of": multiple if multiple > 1 else None,
        "orders in memory": _orders(rules, backend),
        "forces the layout": _forced(backend),
        "bytes per token": _token_bytes(rules, backend),
        "stores": dict(backend.stored_kv_cache_dtypes),
    }
    return {fact: value for fact, value in facts.items() if value not in (None, False, {}, [])}


def backend_text(rules: RuleSet, name: str) -> str:
    """Return one record as lines, `fact: value`; a mapping has one line per entry."""
    lines = [f"{name} in {rules.title}"]
    for fact, value in backend_record(rules, name).items():
        if isinstance(value, Mapping):
            lines += [f"  {fact}:", *(f"    {key}: {_text(entry)}" for key, entry in value.items())]
        elif fact != "name":
            lines.append(f"  {fact}: {_text(value)}")
    return "\n".join(lines)


COLUMNS = ("platforms", "kernel block sizes", "head sizes", "compute capabilities")


def backends_text(rules: RuleSet) -> str:
    """Return all backends of a version as a table; conditions are only in the whole records."""
    rows: list[tuple[str, ...]] = [("backend", *COLUMNS, ORDER)]
    for name, backend in rules.backends.items():
        record = backend_record(rules, name)
        cells = (_cell(record.get(column)) for column in COLUMNS)
        rows.append((name, *cells, _ranks(backend) or "-"))
    return "\n".join(aligned(rows))


def _cell(value: Any) -> str:
    """Return the first entry of a mapping, with a mark where there are more."""
    if not isinstance(value, Mapping):
        return _text(value) if value else "-"
    first, *others = value.values()
    return _text(first) + (" *" if others else "")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _words(condition: Condition) -> bool | str:
    """Return when a condition holds, in the words of its function."""
    if condition in {always, never}:
        return condition is always
    return f"where {_first(condition)}"


def _first(function: Any) -> str:
    """Return the first sentence of a function's documentation without its verb."""
    sentence = (function.__doc__ or "").split("\n\n")[0].strip().rstrip(".")
    return " ".join(sentence.removeprefix("Return whether ").removeprefix("Return why ").split())


def _kind(backend: Backend) -> str:
    kinds = {
        "helper": backend.is_helper,
        "SSM": backend.is_ssm,
        "sparse": backend.is_sparse,
        "MLA": backend.is_mla,
    }
    return " ".join(kind for kind, holds in kinds.items() if holds) or "attention"


def _order(backend: Backend) -> dict[str, str]:
    """Return platform -> rank; the smallest rank of a platform is tried first."""
    found: dict[str, list[str]] = {}
    for platform, number, where, mla in backend.ranks:
        kind = "" if mla is None else " for MLA" if mla else " without MLA"
        text = f"{number}{kind}" + ("" if where is always else f" {_words(where)}")
        found.setdefault(platform, []).append(text)
    return {platform: "; else ".join(texts) for platform, texts in found.items()}


def _ranks(backend: Backend) -> str:
    """Return the numbers alone: "cuda 10/30, xpu 20"."""
    found: dict[str, dict[str, None]] = {}
    for rank in backend.ranks:
        found.setdefault(rank.platform, {})[str(rank.number)] = None
    return ", ".join(f"{platform} {'/'.join(numbers)}" for platform, numbers in found.items())


def _block_sizes(backend: Backend) -> dict[str, list[str]]:
    special: Iterable[tuple[str, tuple[BlockSize, ...] | None]] = (
        ("by default", backend.supported),
        *((f"on {platform}", sizes) for platform, sizes in backend.supported_on.items()),
        *((f"{_words(where)}", sizes) for where, sizes in backend.supported_when),
        ("hybrid models with a float32 state", backend.with_float32_state),
    )
    unit = " keys" if backend.counts_keys else ""
    return {
        where: [
            f"{size}{unit}" if isinstance(size, int) else f"multiple of {size.base}"
            for size in sizes
        ]
        for where, sizes in special
        if sizes is not None
    }


def _preferred(backend: Backend) -> dict[str, int]:
    by_platform = {f"on {name} at least": size for name, size in backend.preferred_at_least.items()}
    return by_platform | ({} if backend.preferred is None else {"by default": backend.preferred})


def _extra(entry: tuple[Any, Condition] | None) -> dict[str, Any]:
    if entry is None:
        return {}
    values, where = entry
    return {str(_words(where)): list(values) if isinstance(values, tuple) else str(values)}


def _orders(rules: RuleSet, backend: Backend) -> dict[str, Any]:
    """Return the orders of one allocation, best first, or where each slot has a tensor, by name."""
    if backend.cache is None:
        return {}
    if not rules.groups.one_allocation:
        return {name: list(order) for name, order in (backend.cache.orders or {}).items()}
    default = backend.orders or rules.groups.layouts
    special = {f"on capability {major}.x": list(o) for major, o in backend.orders_on.items()}
    return {"by default": list(default), **special}


def _forced(backend: Backend) -> str | None:
    where = "" if backend.layout_on is None else f" on capability {backend.layout_on}"
    return None if backend.layout is None else backend.layout + where


def _token_bytes(rules: RuleSet, backend: Backend) -> dict[str, int]:
    """Return KV-cache dtype -> bytes of one token of one layer, in a bfloat16 model.

    One KV head of 128 elements, or a latent of 576.
    """
    if backend.is_ssm or backend.is_helper:
        return {}
    attention = Attention(
        num_heads=1,
        num_kv_heads=1,
        head_size=LATENT_SIZE if backend.is_mla else HEAD_SIZE,
        use_mla=backend.is_mla,
        is_sparse=backend.is_sparse,
    )
    found = {}
    for dtype in backend.kv_cache_dtypes + (backend.extra_kv_cache_dtypes or ((),))[0]:
        stored = backend.stored_kv_cache_dtypes.get(dtype, dtype)
        found[dtype], _ = rules.layer_token_bytes(attention, 1, stored, MODEL_DTYPE, backend.name)
    return found

"""Random scenarios of a rule set, identical for the same seed: the input of the live check."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from workbench.core.platforms import PLATFORMS
from workbench.core.rules import RULE_SETS, RuleSet
from workbench.models import catalog_names, load_model
from workbench.scenario import Scenario
from workbench.scenario_values import allowed_values

Choice = TypeVar("Choice")
GIB = 2**30
CAPABILITIES = ("9.0", "10.0", "8.0", "12.0")
SIZES: dict[str, tuple[int | None, ...]] = {
    "block_size": (None, None, None, 16, 32, 64, 128, 256, 528),
    "mamba_block_size": (None, None, None, None, None, 128, 1024),
    "max_model_len": (None, 2048, 4096),
    "max_num_batched_tokens": (None, None, 2048, 4096, 8192),
    "max_num_seqs": (None, None, 64, 512),
    "device_memory_bytes": (None, 24 * GIB, 80 * GIB, 192 * GIB),
    "tensor_parallel": (1, 1, 2, 4, 8),
    "num_speculative_tokens": (0, 0, 0, 1, 2, 3, 5),
}
"""Field -> sizes to choose from, the likely ones repeated; None leaves it to the engine."""

NEEDS_MORE = frozenset({"custom_class", "suffix"})
LEFT_ALONE = 0.6
"""Share of the scenarios that keep a dtype on auto; half of them the backend."""


def random_scenarios(count: int, seed: int, rules: str) -> tuple[Scenario, ...]:
    """Return `count` scenarios over the catalog, the platforms and the backends of `rules`.

    A backend is of the model's kind (MLA or not) and of the platform; the rest is free, so some
    scenarios are refused, which is an answer too.
    """
    random = Random(seed)  # noqa: S311  (a choice of examples, not of secrets)
    rule_set = RULE_SETS[rules]
    return tuple(_scenario(random, rule_set) for _ in range(count))


def _scenario(random: Random, rules: RuleSet) -> Scenario:
    model = random.choice(catalog_names())
    platform = random.choice(("cuda", "cuda", *PLATFORMS))
    values: dict[str, Any] = {name: random.choice(sizes) for name, sizes in SIZES.items()}
    prefix_caching = random.choice((None, True, True, False))
    return Scenario(
        model=model,
        platform=platform,
        compute_capability=random.choice(CAPABILITIES) if platform == "cuda" else None,
        backend=_maybe(random, _backends(model, platform, rules), LEFT_ALONE / 2),
        dtype=_maybe(random, _words("dtype", rules)) or "auto",
        kv_cache_dtype=_maybe(random, rules.kv_cache_dtypes) or "auto",
        mamba_cache_dtype=_maybe(random, _words("mamba_cache_dtype", rules)) or "auto",
        mamba_ssm_cache_dtype=_maybe(random, _words("mamba_ssm_cache_dtype", rules)) or "auto",
        enable_prefix_caching=prefix_caching,
        mamba_cache_mode=_maybe(random, rules.cache_modes),
        gdn_flashinfer_prefill=random.choice((None, None, True, False)),
        speculative_method=_method(random, values["num_speculative_tokens"], rules),
        rules=rules.name,
        **values,
    )


def _method(random: Random, tokens: int, rules: RuleSet) -> str | None:
    """Return a drafting method that needs neither another package nor a custom class."""
    names = tuple(name for name in rules.speculation.names if name not in NEEDS_MORE)
    return _maybe(random, names) if tokens else None


def _maybe(random: Random, choices: Sequence[Choice], nothing: float = LEFT_ALONE) -> Choice | None:
    return None if not choices or random.random() < nothing else random.choice(choices)


def _words(field: str, rules: RuleSet) -> tuple[str, ...]:
    return allowed_values(field, rules.name) or ()


def _backends(model: str, platform: str, rules: RuleSet) -> tuple[str, ...]:
    attention = load_model(model).attention
    return tuple(
        name
        for name, backend in rules.backends.items()
        if attention is not None
        and backend.is_selectable
        and platform in backend.platforms
        and backend.is_mla == attention.use_mla
        and not backend.is_sparse
    )

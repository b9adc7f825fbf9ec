"""The public question: which chunk sizes work for engines that share one store."""

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.chunks.answer import Chunks
from workbench.core.chunks.connectors import CONNECTORS, LMCACHE
from workbench.core.chunks.engines import member_of
from workbench.core.errors import ScenarioError, check_integer, check_kind, check_plan
from workbench.core.plan import Plan
from workbench.core.ranks import shared_tokens_text

USUAL_PROMPT = 32768
"""Tokens of the prompt whose cost is shown if none is given."""
SEVERAL = "a plan, such as wb.resolve(model=...), or several by name or in a list"


def chunks(
    plans: Plan | Mapping[str, Plan] | Sequence[Plan],
    *,
    connector: str | None = None,
    chunk_tokens: int | None = None,
    prompt_tokens: int | None = None,
) -> Chunks:
    """Return the legal chunk sizes of engines that share one store.

    plans: one engine, or several by name or in a list. connector: vLLM's name for it, by default
    that of the first engine that has one, else LMCacheMPConnector. chunk_tokens: a size to check.
    prompt_tokens: whose cost is shown, by default 32,768 or the longest that any engine allows.
    Errors: ScenarioError for an unknown connector, a size below 1 or ranks that share the tokens of
    a block, or without a plan.

    >>> one = wb.resolve(model="qwen3.5-4b", enable_prefix_caching=True)
    >>> wb.chunks([one, wb.resolve(one.scenario, kv_cache_dtype="fp8")]).legal_sizes[:2]
    (1056, 2112)
    """
    if isinstance(plans, Plan):
        plans = [plans]
    check_kind("wb.chunks", plans, Mapping | Sequence, SEVERAL, "not_a_plan")
    if not plans:
        raise ScenarioError("not_a_plan", f"wb.chunks expects {SEVERAL}; got none.")
    if chunk_tokens is not None:
        check_integer("chunk_tokens", chunk_tokens, 1, 2**31 - 1, "the largest integer of vLLM")
    for plan in plans.values() if isinstance(plans, Mapping) else plans:
        check_plan("wb.chunks", plan, Plan)
    named = plans if isinstance(plans, Mapping) else labelled(plans)
    for plan in named.values():
        if text := shared_tokens_text(plan.settings, "A store of chunks"):
            raise ScenarioError("context_parallel", text, field="decode_context_parallel")
    own = (one for plan in named.values() if (one := plan.settings.kv_connector) in CONNECTORS)
    record = CONNECTORS[connector or next(own, None) or LMCACHE]
    longest = max(plan.max_model_len for plan in named.values()) - 1
    if prompt_tokens is not None:
        check_integer("prompt_tokens", prompt_tokens, 1, longest, "max_model_len less one")
    return Chunks(
        record,
        tuple(member_of(label, plan, record) for label, plan in named.items()),
        chunk_tokens,
        prompt_tokens or min(USUAL_PROMPT, longest),
    )


def labelled(plans: Sequence[Plan]) -> dict[str, Plan]:
    """Return plans by distinct names: the model, then what differs, then a number."""
    fields: tuple[tuple[str, Any], ...] = (
        ("TP {}", lambda plan: plan.settings.tensor_parallel),
        ("PP {}", lambda plan: plan.settings.pipeline_parallel),
        ("{}", lambda plan: plan.settings.kv_cache_dtype),
        ("vLLM {}", lambda plan: plan.rules.name),
    )
    found: dict[str, Plan] = {}
    for plan in plans:
        words = [plan.model.name]
        for text, read in fields:
            if len({read(other) for other in plans}) > 1:
                words.append(text.format(read(plan)))
        name = " ".join(words)
        number = 1 + sum(key == name or key.startswith(f"{name} #") for key in found)
        found[name if number == 1 else f"{name} #{number}"] = plan
    return found

"""What a part of the picture and a step mean: shown when it is pointed at or focused."""

from collections.abc import Iterable, Mapping
from typing import Any

from workbench.core.groups.cache_spec import MAMBA_SPEC
from workbench.core.plan import Plan
from workbench.core.trace import Step, show
from workbench.core.what_if.differences import MADE_FROM
from workbench.views.door.buttons import button
from workbench.views.html import Html, code, faint, join, stacked, tag
from workbench.views.pages.parts import KV, PADDING, page_parts
from workbench.views.rows import result_text

OF_KV = ("num_kv_heads", "head_size", "kv_lora_rank", "qk_rope_head_dim")
"""Fields that the bytes of a token follow from, as far as a model has them."""
WELCOME = "Point at a part of the picture, or focus a step, to see where its number comes from."


def inspector(plan: Plan) -> Html:
    """Return one hidden section per part and per step, and a sentence while none is chosen."""
    sections = (*_parts(plan), *_steps(plan))
    return tag("div", tag("p", WELCOME, data_about="nothing"), *sections, class_="wb-inspector")


def _parts(plan: Plan) -> Iterable[Html]:
    for name, part in page_parts(plan).items():
        yield tag(
            "section",
            tag("b", part.label),
            tag("p", part.words),
            stacked(*_origins(plan, name)),
            tag("p", f"vLLM: {_spec(plan, name)}", class_="wb-faint"),
            data_about=f"part-{name}",
            hidden="",
        )


def _origins(plan: Plan, part: str) -> Iterable[str]:
    """Yield the fields of config.json that the size of a part follows from."""
    known = plan.model.origins
    names = {KV: OF_KV, PADDING: ()}.get(part, plan.model.state_fields)
    found = [
        f"{one.name} = {one.value}" if one.source == name else str(one)
        for name in names
        if (one := known.get(name))
    ]
    return ["config.json:", *found] if found else []


def _spec(plan: Plan, part: str) -> str:
    """Return the class of vLLM, and its field, that has the size of a part."""
    if part == PADDING:
        return f"{MAMBA_SPEC}.page_size_padded"
    groups = plan.cache.groups if plan.cache and part == KV else ()
    kinds = dict.fromkeys(group.kind for group in groups if not group.spec.is_mamba)
    return " and ".join(kinds) or (MAMBA_SPEC if part != KV else "KVCacheSpec")


def _steps(plan: Plan) -> Iterable[Html]:
    made = {step.rule.name: number for number, step in enumerate(plan.steps, 1)}
    for number, step in enumerate(plan.steps, 1):
        yield tag("section", _step(step, made), data_about=f"step-{number}", hidden="")


def _step(step: Step, made: Mapping[str, int]) -> Html:
    return stacked(
        tag("b", step.rule.title),
        result_text(step),
        code(step.rule.formula),
        *(_operand(name, value, step, made) for name, value in step.operands.items()),
        faint(step.source),
    )


def _operand(name: str, value: Any, step: Step, made: Mapping[str, int]) -> Html:
    """Return an operand; one that another step made is a link to that step."""
    source = MADE_FROM.get(name, name)
    if source not in made or source == step.rule.name:
        return join(f"{name} = {show(value)}")
    link = button(name, "step", made[source], key=f"{step.rule.name}-{name}", class_="wb-link")
    return join(link, f" = {show(value)}")


MADE_BY: Mapping[str, tuple[str, ...]] = {
    "hits": (
        *("enable_prefix_caching", "mamba_cache_mode", "block_size", "mamba_block_size"),
        *("max_num_batched_tokens", "speculative_method"),
    ),
    "fits": (
        *("device", "memory_budget", "memory_estimate", "max_model_len"),
        *("block_size", "equal_pages", "num_blocks"),
    ),
    "start": ("backend", "max_num_batched_tokens", "max_num_seqs", "equal_pages", "num_blocks"),
}
"""Name of a view -> the rules that decide it, in the order of the trace."""


def step_list(plan: Plan) -> Html:
    """Return every step with its result; the inspector shows the rest of a focused one."""
    lines = (
        tag("li", tag("b", step.rule.title), f": {result_text(step)}", data_step=number)
        for number, step in enumerate(plan.steps, 1)
    )
    return tag("ol", *lines, class_="wb-all-steps")


def step_links(plan: Plan, view: str) -> Html:
    """Return one link per step that the view's numbers come from, with its result."""
    links = [
        button(f"{number} {step.rule.title}: {result_text(step)}", "step", number, class_="wb-link")
        for number, step in enumerate(plan.steps, 1)
        if step.rule.name in MADE_BY[view]
    ]
    return tag("p", tag("b", "From the steps "), *links, class_="wb-from") if links else Html()

"""What a part of the picture and a step mean: shown when it is pointed at or focused."""

from collections.abc import Iterable, Mapping
from typing import Any

from workbench.core.plan import Plan
from workbench.core.trace import Step, show
from workbench.core.what_if.differences import MADE_FROM
from workbench.views.door.buttons import button
from workbench.views.html import Html, code, faint, join, stacked, tag
from workbench.views.pages.parts import KV, PADDING, page_parts
from workbench.views.rows import result_text

SPECS = {KV: "the attention layer's KVCacheSpec", PADDING: "MambaSpec.page_size_padded"}
"""Part -> the class of vLLM that has its size; states have another one."""
STATE_SPEC = "MambaSpec"
WELCOME = "Point at a part of the picture, or focus a step, to see where its number comes from."


def inspector(plan: Plan) -> Html:
    """Return one hidden section per part and per step, and a sentence while none is chosen."""
    return tag(
        "div",
        tag("p", WELCOME, data_about="nothing"),
        *_parts(plan),
        *_steps(plan),
        class_="wb-inspector",
    )


def _parts(plan: Plan) -> Iterable[Html]:
    for name, part in page_parts(plan).items():
        yield tag(
            "section",
            tag("b", part.label),
            tag("p", part.words),
            tag("p", f"vLLM: {SPECS.get(name, STATE_SPEC)}", class_="wb-faint"),
            data_about=f"part-{name}",
            hidden="",
        )


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

"""What a part of the picture and a step mean: shown when it is pointed at or focused."""

from collections.abc import Iterable

from workbench.core.plan import Plan
from workbench.core.trace import Step, show
from workbench.views.html import Html, code, faint, stacked, tag
from workbench.views.pages.number_steps import number_steps
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
    for one in number_steps(plan):
        yield tag(
            "section", _step(plan.steps[one.number - 1]), data_about=f"step-{one.number}", hidden=""
        )


def _step(step: Step) -> Html:
    operands = (f"{name} = {show(value)}" for name, value in step.operands.items())
    return stacked(
        tag("b", step.rule.title),
        result_text(step),
        code(step.rule.formula),
        *operands,
        faint(step.source),
    )

"""Another block size, tried with a slider below the picture: its pages, what it gains and costs."""

from workbench.core.plan import Plan
from workbench.core.what_if.next_steps import NextStep
from workbench.views.door.buttons import data_button
from workbench.views.door.next_cards import gains_and_costs
from workbench.views.html import Html, join, tag
from workbench.views.pages.drawing import longest_page, other_page
from workbench.views.units import tokens_text

TIMES = 2
"""The slider ends at so many times the present block."""


def slider(plan: Plan) -> Html:
    """Return a slider over block sizes that kernels may take; nothing without attention."""
    if plan.model.attention is None:
        return Html()
    step = _step(plan)
    scale = {"min": step, "max": TIMES * plan.block_size // step * step, "step": step}
    control = tag(
        "input",
        type="range",
        value=plan.block_size,
        **scale,
        data_do="try",
        data_key="try",
        aria_label="Try another block size, in tokens",
    )
    label = tag("label", "Drag to try another block: ", control, class_="wb-try")
    return tag("div", label, tag("div", data_slot="tried"))


def _step(plan: Plan) -> int:
    """Return the tokens between two tried sizes: the alignment, or the default block."""
    found = {step.rule.name: step.result for step in plan.steps}
    return found.get("alignment_granule") or found.get("preferred_block_size") or 16


def tried_html(tokens: int, step: NextStep | None, present: Plan) -> Html:
    """Return what `--block-size` with so many tokens leads to. step: None if nothing changes."""
    words = tag("p", tried_words(tokens, step))
    if step is None:
        return words
    own = longest_page(present)
    other = max(own, longest_page(step.plan))
    scale = "" if other == own else f", drawn at {own / other:.0%} of the scale above"
    title = f"With a block of {tokens_text(step.plan.block_size)}{scale}"
    return join(words, other_page(title, step.plan, other))


def tried_words(tokens: int, step: NextStep | None) -> Html:
    """Return the same in a sentence, with the button that sets it."""
    lead = tag("b", f"--block-size {tokens}: ")
    if step is None:
        return join(lead, "changes nothing, or is refused.")
    taken = step.plan.block_size
    size = f"vLLM uses {tokens_text(taken)}. "
    if taken != tokens:
        size = f"vLLM raises it to {tokens_text(taken)}, since the page has to hold a state. "
    use = data_button(f"Use --block-size {tokens}", "apply", step.changes)
    return join(lead, size, *gains_and_costs(step), " ", use)

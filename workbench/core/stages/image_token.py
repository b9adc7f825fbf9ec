"""The token for images that a drafter of the V1 runner gets from its target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.core.built import PROPOSER
from workbench.core.runner import model_runner
from workbench.core.speculation import NGRAM

if TYPE_CHECKING:
    from workbench.core.working_plan import WorkingPlan


def check_image_token(run: WorkingPlan, method: str) -> None:
    """Check that the V1 runner finds the target's token for images, which its drafter gets."""
    # SpecDecodeBaseProposer.load_model, 0.23 and 0.33, in every method with layers of its own
    name, rules = run.model.architecture, run.rules.speculation
    text = run.model.build_errors.get(PROPOSER)
    if text is None or name in rules.image_tokens or rules.methods[method].layers is None:
        return
    if model_runner(run) == "v1":
        run.problem(
            "image_token_not_found",
            operands={"speculative_method": method, "architecture": name},
            vllm_text=text,
            ngram=NGRAM,
        )

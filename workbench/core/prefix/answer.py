"""What prefix caching can reuse under a plan, as a value that shows itself."""

from dataclasses import dataclass
from typing import Any

from workbench.core.plan import Plan
from workbench.core.prefix import hits
from workbench.core.prefix.hits import Caching, Hit
from workbench.core.prefix.prefill import Prefill


@dataclass(frozen=True, slots=True, repr=False)
class PrefixHits:
    """The answer of `plan.hits()`. caching: what hits depend on. All sizes in tokens."""

    plan: Plan
    caching: Caching

    @property
    def alignment_tokens(self) -> int:
        """Return the unit of hits: every hit is a multiple of it."""
        return self.caching.alignment_tokens

    def hit(self, prompt_tokens: int, shared_tokens: int) -> Hit:
        """Return what a prompt reuses of an earlier one. Errors: ScenarioError for the lengths."""
        return hits.prefix_hit(self.caching, prompt_tokens, shared_tokens)

    def smallest_prefix(self, prompt_tokens: int | None = None) -> int | None:
        """Return the shortest shared prefix with a hit, None without one.

        prompt_tokens: of the prompts; None for every length that `max_model_len` allows.
        """
        return hits.smallest_prefix(self.caching, prompt_tokens)

    def prefill(self, prompt_tokens: int, cached_tokens: int = 0) -> Prefill:
        """Return the steps of one prompt and the states that it leaves."""
        return self.caching.prefill(prompt_tokens, cached_tokens)

    def figure(self, theme: str = "auto") -> Any:
        """Return the plotly figure of cached tokens over the length of the prompt."""
        from workbench.views.hits.figure import hit_curve

        return hit_curve(self.plan, theme=theme)

    def __repr__(self) -> str:
        if (reason := hits.reason_without_hits(self.caching)) is not None:
            return reason
        unit = f"hits are multiples of {self.alignment_tokens:,} tokens"
        return f"smallest prefix {self.smallest_prefix():,} tokens; {unit}"

    def _repr_html_(self) -> str:
        from workbench.views.hits.html import hits_html

        return hits_html(self.plan)

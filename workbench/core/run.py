"""The working state of one resolution: stages read it, change it, and write the trace."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from workbench.core.backends import Backend, LayerQuery
from workbench.core.block_sizes import BlockSize
from workbench.core.capacity.blocks import CachePlan, cache_plan
from workbench.core.groups.grouping import Grouping
from workbench.core.groups.of_plan import grouping_of
from workbench.core.layer_query import capability_of, layer_query
from workbench.core.model import Model
from workbench.core.platforms import PLATFORMS, Platform
from workbench.core.problems import ERROR, Problem
from workbench.core.settings import Settings
from workbench.core.states import Shape
from workbench.core.trace import Rule, Step

if TYPE_CHECKING:
    from workbench.core.rule_set import RuleSet


WRITTEN_FOR = "0.23"
"""The version whose sources the rules name."""


@cache
def _in_version(rule: Rule, version: str) -> Rule:
    """Return the rule as the sources of `version` have it.

    A rule is written for 0.23, unless it says otherwise.
    """
    return rule._replace(source=rule.source.replace("vLLM 0.23", f"vLLM {version}"))


class Run:
    """Mutable inside `resolve`, never seen outside. Sizes in tokens or bytes, per rank.

    Fields whose value a stage still has to decide start as None (or as the user's value).
    """

    __slots__ = (
        "_cache",
        "_grouping",
        "attention_bytes_per_token",
        "attention_page_size_bytes",
        "backend",
        "backends",
        "block_size",
        "block_size_of_phase_1",
        "capability",
        "float32_state",
        "kernel_block_size",
        "kv_cache_dtype",
        "log_lines",
        "mamba_block_size",
        "mamba_cache_dtype",
        "mamba_cache_mode",
        "mamba_page_size_bytes",
        "mamba_page_size_padded",
        "mamba_ssm_cache_dtype",
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
        "model",
        "model_dtype",
        "plain_backend",
        "plain_supported",
        "platform",
        "prefix_caching",
        "problems",
        "rules",
        "settings",
        "skip_page_size_padded",
        "speculative_method",
        "state_dtypes",
        "state_shapes",
        "steps",
        "supported",
    )

    def __init__(self, model: Model, settings: Settings, rules: RuleSet) -> None:
        self.model = model
        self.settings = settings
        self.rules = rules
        self.platform: Platform = PLATFORMS[settings.platform]
        self.capability = capability_of(settings)
        self.steps: list[Step] = []
        self.problems: list[Problem] = []
        self.log_lines: list[str] = []

        self.model_dtype = "bfloat16"
        self.kv_cache_dtype = settings.kv_cache_dtype
        self.mamba_cache_dtype = settings.mamba_cache_dtype
        self.mamba_ssm_cache_dtype = settings.mamba_ssm_cache_dtype
        self.max_model_len = 0
        self.max_num_batched_tokens = 0
        self.max_num_seqs = 0
        self.prefix_caching = False
        self.speculative_method: str | None = None
        self.mamba_cache_mode = "none"
        self.block_size = settings.block_size or rules.default_block_size
        self.mamba_block_size = settings.mamba_block_size
        self.mamba_page_size_padded: int | None = None
        self.skip_page_size_padded: int | None = None
        self.backend: Backend | None = None
        self.plain_backend: Backend | None = None
        self.plain_supported: tuple[BlockSize, ...] = ()
        self.backends: tuple[tuple[Backend, tuple[BlockSize, ...]], ...] = ()
        self.block_size_of_phase_1: int | None = None
        self.supported: tuple[BlockSize, ...] = ()
        self.float32_state = False
        self.state_shapes: tuple[Shape, ...] = ()
        self.state_dtypes: tuple[str, ...] = ()
        self.mamba_page_size_bytes: int | None = None
        self.attention_bytes_per_token: int | None = None
        self.attention_page_size_bytes: int | None = None
        self.kernel_block_size: int | None = None
        self._cache: tuple[CachePlan | None] | None = None
        self._grouping: Grouping | None = None

    @property
    def grouping(self) -> Grouping:
        """Return the groups alone, built once like the cache. Errors: see `grouping_of`."""
        if self._grouping is None:
            self._grouping = grouping_of(self)
        return self._grouping

    @property
    def cache(self) -> CachePlan | None:
        """Return the groups and capacity, built once; to be read when the pages are settled."""
        if self._cache is None:
            self._cache = (cache_plan(self),)
        return self._cache[0]

    @property
    def built(self) -> Mapping[str, Any]:
        """Return the groups and cache, by name, as far as a stage has read them."""
        found: dict[str, Any] = {} if self._grouping is None else {"grouping": self._grouping}
        if self._cache is not None:
            found["cache"] = self._cache[0]
        return found

    def forget_cache(self) -> None:
        """Discard the cache, since what it was built from has changed."""
        self._cache = None

    def step(self, rule: Rule, result: Any, note: str = "", /, **operands: Any) -> None:
        """Append one step to the trace."""
        version = self.rules.version
        if version != WRITTEN_FOR:
            rule = _in_version(rule, version)
        self.steps.append(Step(rule, operands, result, note))

    def problem(
        self,
        code: str,
        field: str,
        message: str,
        *,
        operands: Mapping[str, Any] | None = None,
        severity: str = ERROR,
        vllm_text: str | None = None,
        candidates: tuple[Mapping[str, Any], ...] = (),
    ) -> None:
        """Record one problem."""
        self.problems.append(
            Problem(code, severity, field, message, operands or {}, vllm_text, candidates)
        )

    @property
    def first_backend(self) -> tuple[Backend, tuple[BlockSize, ...]]:
        """Return the backend of the first non-SSM layer and its kernel block sizes.

        There must be one.
        """
        return self.backends[0]

    def query(self) -> LayerQuery:
        """Return what an attention layer requires of a backend.

        Only an explicit block size is part of it.
        """
        return layer_query(self)

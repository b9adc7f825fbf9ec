"""The plan: everything that follows from a model and the settings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from workbench.core.block_sizes import BlockSize, describe
from workbench.core.capacity.blocks import CachePlan, cache_plan
from workbench.core.groups.grouping import Grouping
from workbench.core.groups.of_plan import grouping_of
from workbench.core.model import Model
from workbench.core.problems import ERROR, Problem
from workbench.core.rule_set import RULE_SETS, RuleSet
from workbench.core.run import Run
from workbench.core.settings import Settings
from workbench.core.states import Shape
from workbench.core.trace import Step


@dataclass(frozen=True, repr=False)
class Plan:
    """What vLLM makes of one scenario. Sizes are per rank; None where a model has no such thing.

    block_size: tokens of a manager block of the attention group. mamba_page_size_bytes:
    unpadded bytes of one state block; mamba_page_size_padded: the padded size if vLLM records
    one. attention_bytes_per_token: what the alignment counts; attention_page_size_bytes: the
    page that the attention layer needs. skip_page_size_padded: to which windows in the model's
    dtype are padded alongside a quantized cache, if that is recorded (0.33). kernel_block_size:
    None also when there is no common one. speculative_method: which one drafts tokens, None
    without speculative decoding. plain_backend: of attention layers that keep the model's dtype
    alongside a quantized cache, None where there are none; plain_supported: its kernel block
    sizes. log_lines: what vLLM will print, character for character.
    """

    model: Model
    settings: Settings
    backend: str | None
    model_dtype: str
    kv_cache_dtype: str
    enable_prefix_caching: bool
    speculative_method: str | None
    mamba_cache_mode: str
    mamba_cache_dtype: str
    mamba_ssm_cache_dtype: str
    max_model_len: int
    max_num_batched_tokens: int
    max_num_seqs: int
    block_size: int
    mamba_block_size: int | None
    attention_bytes_per_token: int | None
    attention_page_size_bytes: int | None
    mamba_page_size_bytes: int | None
    mamba_page_size_padded: int | None
    skip_page_size_padded: int | None
    kernel_block_size: int | None
    mamba_state_shapes: tuple[Shape, ...]
    mamba_state_dtypes: tuple[str, ...]
    supported_kernel_block_sizes: tuple[BlockSize, ...]
    plain_backend: str | None
    plain_supported: tuple[BlockSize, ...]
    problems: tuple[Problem, ...]
    steps: tuple[Step, ...]
    log_lines: tuple[str, ...]

    @classmethod
    def from_run(cls, run: Run) -> Plan:
        """Freeze the working state of a finished resolution."""
        plan = cls(
            model=run.model,
            settings=run.settings,
            backend=None if run.backend is None else run.backend.name,
            model_dtype=run.model_dtype,
            kv_cache_dtype=run.kv_cache_dtype,
            enable_prefix_caching=run.prefix_caching,
            speculative_method=run.speculative_method,
            mamba_cache_mode=run.mamba_cache_mode,
            mamba_cache_dtype=run.mamba_cache_dtype,
            mamba_ssm_cache_dtype=run.mamba_ssm_cache_dtype,
            max_model_len=run.max_model_len,
            max_num_batched_tokens=run.max_num_batched_tokens,
            max_num_seqs=run.max_num_seqs,
            block_size=run.block_size,
            mamba_block_size=run.mamba_block_size,
            attention_bytes_per_token=run.attention_bytes_per_token,
            attention_page_size_bytes=run.attention_page_size_bytes,
            mamba_page_size_bytes=run.mamba_page_size_bytes,
            mamba_page_size_padded=run.mamba_page_size_padded,
            skip_page_size_padded=run.skip_page_size_padded,
            kernel_block_size=run.kernel_block_size,
            mamba_state_shapes=run.state_shapes,
            mamba_state_dtypes=run.state_dtypes,
            supported_kernel_block_sizes=run.supported,
            plain_backend=None if run.plain_backend is None else run.plain_backend.name,
            plain_supported=run.plain_supported,
            problems=tuple(run.problems),
            steps=tuple(run.steps),
            log_lines=tuple(run.log_lines),
        )
        vars(plan).update(run.built)  # cached properties: not to be built once more
        return plan

    @property
    def rules(self) -> RuleSet:
        """Return the rules of the version that was picked."""
        return RULE_SETS[self.settings.rules]

    @property
    def prefix_caching(self) -> bool:
        """Return whether prefix caching is on."""
        return self.enable_prefix_caching

    @property
    def supported(self) -> tuple[BlockSize, ...]:
        """Return the kernel block sizes of the backend."""
        return self.supported_kernel_block_sizes

    @cached_property
    def grouping(self) -> Grouping:
        """Return which layers share a block table. Errors: see `grouping_of`."""
        return grouping_of(self)

    @cached_property
    def cache(self) -> CachePlan | None:
        """Return groups, tensors and capacity; None when the pages cannot be made equal."""
        return cache_plan(self)

    def built_cache(self) -> CachePlan:
        """Return the cache where there has to be one. Errors: ValueError when there is none."""
        if self.cache is None:
            raise ValueError("the pages of this plan cannot be made equal: see plan.problems")
        return self.cache

    @property
    def is_hybrid(self) -> bool:
        """Return whether attention and SSM layers share the cache."""
        return self.model.is_hybrid

    @property
    def final_mamba_page_size_bytes(self) -> int | None:
        """Return the bytes that one state block really takes: padded if padding is recorded."""
        return self.mamba_page_size_padded or self.mamba_page_size_bytes

    @property
    def padding_bytes(self) -> int:
        """Return the bytes of padding in every mamba page of every layer."""
        if not self.mamba_page_size_bytes or self.mamba_page_size_padded is None:
            return 0
        return self.mamba_page_size_padded - self.mamba_page_size_bytes

    @property
    def padding_percent(self) -> float | None:
        """Return the padding relative to the unpadded mamba page; None without an SSM layer."""
        if not self.mamba_page_size_bytes:
            return None
        return 100 * self.padding_bytes / self.mamba_page_size_bytes

    @property
    def kernel_blocks_per_block(self) -> int | None:
        """Return r: kernel blocks in one manager block."""
        return self.block_size // self.kernel_block_size if self.kernel_block_size else None

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Return the problems that keep vLLM from starting."""
        return tuple(problem for problem in self.problems if problem.severity == ERROR)

    @property
    def fingerprint(self) -> str:
        """Return eight hex digits that differ whenever the model or a setting differs."""
        text = f"{self.model!r}{self.settings!r}"
        return sha256(text.encode()).hexdigest()[:8]

    def __repr__(self) -> str:
        nothing = "no attention" if self.model.attention is None else "no valid backend"
        place = f"{self.settings.platform}, {self.backend or nothing}"
        words = [f"{self.model.name} on {place}: block_size {self.block_size}"]
        if self.kernel_block_size:
            words.append(f"kernel block {self.kernel_block_size}")
        if self.is_hybrid and self.padding_percent is not None:
            words.append(f"mamba page padded by {self.padding_percent:.2f} %")
        if self.problems:
            words.append("problems: " + ", ".join(problem.code for problem in self.problems))
        return ", ".join(words)

    def to_dict(self) -> dict[str, Any]:
        """Return the published plan: stable names, JSON-able values."""
        attention = self.model.attention
        return {
            "model": self.model.name,
            "rules": self.settings.rules,
            "is_hybrid": self.is_hybrid,
            "use_mla": attention is not None and attention.use_mla,
            "backend": self.backend,
            "plain_backend": self.plain_backend,
            "mamba_backend": None if self.model.state is None else self.model.state.backend,
            "block_size": self.block_size,
            "mamba_block_size": self.mamba_block_size,
            "mamba_cache_mode": self.mamba_cache_mode,
            "mamba_cache_dtype": self.mamba_cache_dtype,
            "mamba_ssm_cache_dtype": self.mamba_ssm_cache_dtype,
            "enable_prefix_caching": self.enable_prefix_caching,
            "speculative_method": self.speculative_method,
            "model_dtype": self.model_dtype,
            "kv_cache_dtype": self.kv_cache_dtype,
            "max_model_len": self.max_model_len,
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "max_num_seqs": self.max_num_seqs,
            "num_kv_heads_per_rank": None
            if attention is None
            else attention.kv_heads_per_rank(self.settings.tensor_parallel),
            "head_size": None if attention is None else attention.head_size,
            "attention_bytes_per_token": self.attention_bytes_per_token,
            "attention_page_size_bytes": self.attention_page_size_bytes,
            "mamba_page_size_bytes": self.mamba_page_size_bytes,
            "mamba_page_size_padded": self.mamba_page_size_padded,
            "padding_percent": self.padding_percent,
            "kernel_block_size": self.kernel_block_size,
            "kernel_blocks_per_block": self.kernel_blocks_per_block,
            "mamba_state_shapes": [list(shape) for shape in self.mamba_state_shapes] or None,
            "mamba_state_dtypes": list(self.mamba_state_dtypes) or None,
            "supported_kernel_block_sizes": describe(self.supported_kernel_block_sizes),
            **published_cache(self.cache),
            "log_lines": list(self.log_lines),
            "problems": [problem.to_dict() for problem in self.problems],
            "trace": [step.to_dict() for step in self.steps],
        }


def published_cache(cache: CachePlan | None) -> dict[str, Any]:
    """Return the part of the published plan that contains groups, tensors and capacity."""
    if cache is None:
        names = ("groups", "tensors", "num_blocks", "blocks_per_request", "max_concurrency")
        more = ("scheduler_block_size", "hash_block_size", "cache_layout", "placements")
        return dict.fromkeys((*names, *more))
    return {
        "groups": [
            {
                "spec": group.kind,
                "block_size": group.spec.block_size,
                "page_size_bytes": group.page_size_bytes,
                "kernel_block_size": kernel,
                "padding_layers": group.padding_layers,
                "layer_names": list(group.layers),
                "layer_page_size_bytes": [spec.page_size_bytes for spec in group.own_specs] or None,
            }
            for group, kernel in zip(cache.groups, cache.kernel_block_sizes, strict=True)
        ],
        "tensors": None
        if cache.tensors is None
        else [
            {"size": tensor.size_bytes, "shared_by": list(tensor.shared_by)}
            for tensor in cache.tensors
        ],
        "num_blocks": cache.num_blocks,
        "blocks_per_request": cache.blocks_per_request,
        "max_concurrency": cache.max_concurrency,
        "scheduler_block_size": cache.scheduler_block_size,
        "hash_block_size": cache.hash_block_size,
        "cache_layout": cache.grouping.layout,
        "placements": published_placements(cache),
    }


def published_placements(cache: CachePlan) -> list[dict[str, Any]] | None:
    """Return where layers are in the one allocation of 0.33; None without one, or without a size.

    Block b of the l-th layer starts at offset + l * layer_stride + b * block_stride.
    """
    return [
        {
            "group": placed.group,
            "layer_names": list(placed.layers),
            "offset": placed.where.offset,
            "layer_stride": placed.where.layer_stride,
            "block_stride": placed.where.block_stride,
        }
        for placed in cache.placements or ()
    ] or None

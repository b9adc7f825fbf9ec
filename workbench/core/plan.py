"""The plan: everything that follows from a model and the settings."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, cast

from workbench.core.backends import Backend
from workbench.core.block_sizes import BlockSize
from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.capacity.memory_budget import MemoryBudget
from workbench.core.devices import Device, device_memory_of, device_of, platform_of
from workbench.core.drafter import Drafter
from workbench.core.groups.cache_spec import GroupingError
from workbench.core.groups.grouping import Grouping
from workbench.core.groups.layer_classes import LayerVariant
from workbench.core.groups.pipeline import Stage
from workbench.core.model import Model
from workbench.core.plan_answers import PlanAnswers
from workbench.core.platforms import PLATFORMS, Platform, capability_of
from workbench.core.problems import ERROR, Problem, PublishedProblem
from workbench.core.published import Published, decided, digest, frozen_record, published
from workbench.core.rule_set import RuleSet
from workbench.core.speculation import SpeculativeMethod
from workbench.core.states import LayerStates, Shape
from workbench.core.trace import Step, Trace

if TYPE_CHECKING:
    from workbench.scenario import Scenario, Settings


@frozen_record
class Plan(PlanAnswers, Published):
    """What vLLM makes of one scenario; sizes are per rank. What is not published is for stages.

    >>> plan.block_size, plan.kernel_block_size
    (2096, 16)
    """

    model: Model = decided("what is served", published=False, required=True)
    settings: Settings = decided("what the user chose", published=False, required=True)
    rules: RuleSet = decided("the rules of the version", published=False, required=True)
    device: Device | None = decided(
        "the device by name", published=False, start=lambda plan: device_of(plan.settings)
    )
    platform: Platform = decided(
        "where it runs", published=False, start=lambda plan: PLATFORMS[platform_of(plan.settings)]
    )
    capability: tuple[int, int] | None = decided(
        "compute capability", published=False, start=lambda plan: capability_of(plan.settings)
    )
    device_memory_bytes: int | None = decided(
        "of a device", "bytes", published=False, start=lambda plan: device_memory_of(plan.settings)
    )

    @published(name="model")
    def model_name(self) -> str:
        """Return the name of the model."""
        return self.model.name

    @published(name="rules")
    def rules_name(self) -> str:
        """Return the name of the rule set."""
        return self.rules.name

    @published()
    def is_hybrid(self) -> bool:
        """Return whether attention and SSM layers share the cache."""
        return self.model.is_hybrid

    @published()
    def use_mla(self) -> bool:
        """Return whether the attention is multi-head latent attention."""
        return self.model.counted is not None and self.model.counted.use_mla

    backend: str | None = decided(
        "backend of the attention layers, null without a valid one", label="attention backend"
    )
    plain_backend: str | None = decided("backend of the layers left in model_dtype")
    draft_backend: str | None = decided("backend of the drafter's layers, null without any")

    @published()
    def mamba_backend(self) -> str | None:
        """Return what computes the SSM layers."""
        return self.rules.state_backend(self.model, self.platform.name)

    block_size: int = decided(
        "a manager block of the attention group",
        "tokens",
        start=lambda plan: plan.settings.block_size or plan.rules.default_block_size,
    )
    mamba_block_size: int | None = decided(
        "a manager block of the SSM layers' groups",
        "tokens",
        label="mamba block",
        start=attrgetter("settings.mamba_block_size"),
    )
    mamba_cache_mode: str = decided(
        "which states of a request are kept", default="none", choices=("none", "align", "all")
    )
    mamba_cache_dtype: str = decided(
        "dtype of the convolution states", start=attrgetter("settings.mamba_cache_dtype")
    )
    mamba_ssm_cache_dtype: str = decided(
        "dtype of the recurrent states", start=attrgetter("settings.mamba_ssm_cache_dtype")
    )
    enable_prefix_caching: bool = decided(
        "whether prefix caching is on", label="prefix caching", default=False
    )
    speculative_method: str | None = decided("what drafts tokens, null without draft tokens")
    model_dtype: str = decided("dtype of weights and activations", default="bfloat16")
    kv_cache_dtype: str = decided(
        "dtype of stored keys and values", start=attrgetter("settings.kv_cache_dtype")
    )
    draft_kv_cache_dtype: str | None = decided("dtype of the drafter's cache, null without one")
    max_model_len: int = decided("the longest request", "tokens", default=0)
    max_num_batched_tokens: int = decided(
        "the budget of a step", "tokens", label="max batched tokens", default=0
    )
    max_num_seqs: int = decided("the most in a step", "sequences", label="sequences", default=0)

    @published()
    def num_kv_heads_per_rank(self) -> int | None:
        """Return the heads of keys and values on one rank, the most of any layer."""
        attention = self.model.stated or self.model.largest_attention
        ranks = self.settings.tensor_parallel
        return None if attention is None else attention.kv_heads_per_rank(ranks)

    @published(unit="elements")
    def head_size(self) -> int | None:
        """Return the size of an attention head."""
        return None if self.model.counted is None else self.model.counted.head_size

    attention_bytes_per_token: int | None = decided(
        "a token's keys and values in one layer, per rank, as the alignment counts them",
        "bytes",
        label="KV bytes per token per layer",
    )
    attention_page_size_bytes: int | None = decided(
        "a block of one attention layer", "bytes", label="attention page"
    )
    mamba_page_size_bytes: int | None = decided(
        "a state as the alignment counts it", "bytes", label="mamba state"
    )
    layer_state_bytes: int | None = decided("a state as its layer keeps it", "bytes")
    mamba_page_size_padded: int | None = decided(
        "one state block with its padding, null when none is recorded", "bytes"
    )

    @published(unit="percent", label="padding")
    def padding_percent(self) -> float | None:
        """Return the padding relative to the unpadded mamba page, null without an SSM layer."""
        own = self.mamba_page_size_bytes
        return 100 * ((self.mamba_page_size_padded or own) - own) / own if own else None

    kernel_block_size: int | None = decided(
        "what the attention kernel sees, null without a common size", "tokens", label="kernel block"
    )

    @published()
    def kernel_blocks_per_block(self) -> int | None:
        """Return r: kernel blocks in one manager block."""
        return self.block_size // self.kernel_block_size if self.kernel_block_size else None

    mamba_state_shapes: tuple[Shape, ...] = decided(
        "shapes of the states that alignment counts", "elements", default=(), empty_is_null=True
    )
    layer_state_shapes: tuple[Shape, ...] = decided(
        "shapes of the states that a layer keeps", "elements", default=(), empty_is_null=True
    )
    mamba_state_dtypes: tuple[str, ...] = decided("state dtypes", default=(), empty_is_null=True)
    supported_kernel_block_sizes: tuple[BlockSize, ...] = decided(
        'what the backend supports: exact sizes, or "MultipleOf(n)"', "tokens", default=()
    )
    layer_backends: tuple[tuple[LayerVariant, str, tuple[BlockSize, ...]], ...] = decided(
        "backend and kernel block sizes by kind of layer", published=False, default=()
    )
    drafter: Drafter | None = decided("what drafts with layers of its own", published=False)
    draft_supported: tuple[BlockSize, ...] = decided(
        "kernel block sizes of the drafter's backend", "tokens", published=False, default=()
    )
    draft_states: LayerStates | None = decided("SSM states of the drafter", published=False)
    skip_page_size_padded: int | None = decided(
        "page of windows outside a quantized cache (0.33)", "bytes", published=False
    )
    backends: tuple[tuple[str, tuple[BlockSize, ...]], ...] = decided(
        "backends of all non-SSM layers with kernel block sizes, in the order of the layers",
        published=False,
        default=(),
    )
    block_size_of_phase_1: int | None = decided("before the alignment", "tokens", published=False)
    float32_state: bool = decided("in a hybrid model", published=False, default=False)
    stage_layers: range | None = decided("layers of a stage decided alone", published=False)
    stages: tuple[Stage, ...] = decided("pipeline stages, if several", published=False, default=())
    grouping: Grouping | None = decided("which layers share a block table", published=False)
    grouping_error: GroupingError | None = decided("why none do", published=False, compare=False)
    estimates: tuple[MemoryBudget, ...] = decided(
        "the memory of every pipeline stage, where none is explicit", published=False, default=()
    )
    cache: CachePlan | None = decided("groups, tensors and capacity", parts=CachePlan)
    log_lines: tuple[str, ...] = decided("what vLLM prints, to the character", default=())
    problems: tuple[Problem, ...] = decided("what goes wrong", published=False, default=())

    @published(name="problems")
    def published_problems(self) -> list[PublishedProblem]:
        """Return what goes wrong, with the remedies that were tried and work."""
        return [
            {**problem.to_dict(), "remedies": [one.to_dict() for one in self.remedies(problem)]}
            for problem in self.problems
        ]

    steps: tuple[Step, ...] = decided("every decision", name="trace", default=())

    @property
    def trace(self) -> Trace:
        """Return every decision with its operands, its result and the source of the rule."""
        return Trace(self.steps)

    @property
    def scenario(self) -> Scenario:
        """Return the settings as what they are where a `workbench.Scenario` was resolved."""
        return cast("Scenario", self.settings)

    @property
    def backend_record(self) -> Backend | None:
        """Return what the rules say about the backend."""
        return None if self.backend is None else self.rules.backends[self.backend]

    @property
    def speculation(self) -> SpeculativeMethod | None:
        """Return the record of the method that drafts; None without speculative decoding."""
        name = self.speculative_method
        return None if name is None else self.rules.speculation.methods[name]

    @property
    def final_mamba_page_size_bytes(self) -> int | None:
        """Return the bytes that one state block really takes: padded if padding is recorded."""
        return self.mamba_page_size_padded or self.layer_state_bytes

    @property
    def padding_bytes(self) -> int:
        """Return the bytes of padding in every mamba page of every layer."""
        if not self.layer_state_bytes or self.mamba_page_size_padded is None:
            return 0
        return max(0, self.mamba_page_size_padded - self.layer_state_bytes)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Return the problems that keep vLLM from starting."""
        return tuple(problem for problem in self.problems if problem.severity == ERROR)

    @property
    def fingerprint(self) -> str:
        """Return eight hex digits that differ whenever the layers or a setting differ."""
        return digest(self.model, self.settings)

    def __repr__(self) -> str:
        nothing = "no attention" if self.model.attention is None else "no valid backend"
        version = f"vLLM {self.settings.rules}"
        place = f"{self.platform.name}, {version}, {self.backend or nothing}"
        words = [f"{self.model.name} on {place}: block_size {self.block_size}"]
        if self.kernel_block_size:
            words.append(f"kernel block {self.kernel_block_size}")
        if self.is_hybrid and self.padding_percent is not None:
            words.append(f"mamba page padded by {self.padding_percent:.2f} %")
        if self.problems:
            words.append("problems: " + ", ".join(problem.code for problem in self.problems))
        return ", ".join(words)

    def _repr_html_(self) -> str:
        from workbench.views.summary import plan_html

        return plan_html(self)

    def to_vllm_args(self) -> tuple[str, ...]:
        """Return the `vllm serve` arguments of this scenario, ready for a shell or a subprocess.

        The first is the hub id or the folder of the model, a placeholder where neither is known.
        """
        from workbench.interop.commands.vllm_args import vllm_args

        return vllm_args(self.scenario, self.model)

    def to_vllm_command(self) -> str:
        """Return a shell command with one flag per line, environment variables first."""
        from workbench.interop.commands.vllm_args import vllm_command

        return vllm_command(self.scenario, self.model)

    def to_code(self) -> str:
        """Return Python that builds this scenario and resolves it."""
        from workbench.interop.commands.code import scenario_code

        return scenario_code(self.scenario.stated())

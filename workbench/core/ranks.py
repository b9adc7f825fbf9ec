"""How many ranks an engine has, and GPUs a scenario takes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.core.described import COMPRESSED
from workbench.core.media import has_whole_towers
from workbench.core.platforms import gfx_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.core.formats import Format
    from workbench.core.model import Model
    from workbench.core.plan import Plan
    from workbench.scenario.fields import Settings

OF_ENGINE = ("tensor_parallel", "pipeline_parallel")
"""Fields whose product is the ranks of one engine (ParallelConfig.world_size), one GPU each."""
OF_ALL = (*OF_ENGINE, "data_parallel")
"""Fields whose product is the GPUs of all engines."""
SHORT = {
    "tensor_parallel": "TP",
    "pipeline_parallel": "PP",
    "data_parallel": "DP",
    "decode_context_parallel": "DCP",
}
"""Field -> what people call it."""


SHARED_EXPERT = "shared expert"
"""Experts that every token takes, in classes that give every rank some of the tokens."""
ONE_STAGE = "one stage"
"""Layers that are repeated like them, but not where there are pipeline stages."""


class Tower(NamedTuple):
    """The sizes of a tower for images or sound of which every rank has a share."""

    heads: int
    """0 where they are not cut."""
    words: str = ""
    """What vLLM says where heads do not divide: "" is an assertion alone."""
    width: int = 0
    """Elements of the MLP, where they may be what does not divide; else 0."""
    has_gate: bool = False
    """Of the MLP: vLLM then asserts that the elements divide, and names no numbers."""
    widens: str = "MLP"
    """What has `width` elements."""
    inputs: tuple[int, int] = (0, 0)
    """Elements of a vector and of the MLP, of layers that `--quantization` quantizes; else 0."""
    quantized: tuple[int, int] = (0, 0)
    """The same where the checkpoint's format is that of the tower, too; else 0."""
    rotated_size: int = 0
    """Elements of a head, where they are rotated along three axes; else 0."""
    levels: int = 0
    """Layers of the decoder that add vectors of the tower's own layers, all on the first stage."""


class Padding(NamedTuple):
    """Sizes to which the kernel that a device has for routed experts rounds up what a rank has."""

    inner: int
    """Of the divided size."""
    hidden: int = 1
    format: Format | None = None
    """None is plain experts."""
    platform: str = "cuda"
    majors: tuple[int, ...] = ()
    """Of the compute capability of its devices; empty for all."""
    gfx: tuple[str, ...] = ("",)
    """How the architectures of its AMD devices begin."""
    is_invariant: bool = True
    """The kernel runs with batch invariance, too."""
    tried: Callable[[Model], bool] | None = None
    """For which models vLLM tries it; None for all."""
    has_aiter: bool | None = None
    """Whether AITER's kernels have to be on or off; None for both."""
    takes_bias: bool = True
    """It also runs experts with biases, as those of gpt-oss, whose activation is another."""

    def rounds(self, stored: Format | None) -> bool:
        """Return whether experts in a format have these sizes, whatever their inputs are in."""
        if self.format is None or stored is None:
            return self.format == stored
        return self.format[:3] == stored[:3]

    def is_used(self, plan: Plan, model: Model) -> bool:
        """Return whether a device has such a kernel first for the experts of a model."""
        major = (plan.capability or (0, 0))[0]
        return (
            plan.platform.name == self.platform
            and (major in self.majors or not self.majors)
            and gfx_of(plan.settings).startswith(self.gfx)
            and (self.is_invariant or not plan.settings.batch_invariant)
            and self.has_aiter in {None, plan.settings.rocm_aiter}
            and self.is_tried(model)
        )

    def is_tried(self, model: Model) -> bool:
        """Return whether vLLM tries it for the experts of a model."""
        # the methods of compressed-tensors have no maybe_roundup_sizes
        rounds = self.format is None or model.quantization != COMPRESSED
        return rounds and (self.tried is None or self.tried(model))


GATES = "gates of delta nets"
OF_MARLIN = frozenset({"awq", "gptq", "auto-round"})
"""Methods of checkpoints whose linear layers Marlin runs on CUDA."""


class Split(NamedTuple):
    """Among how many ranks the layers of a model are divided."""

    ranks: int = 1
    """Of one engine, by tensor parallelism."""
    engines: int = 1
    """Which divide routed experts among all of their ranks; 1 where engines are independent."""
    keeps_experts: bool = False
    """A rank has some routed experts whole, instead of a share of each (expert parallelism)."""
    repeated: frozenset[str] = frozenset()
    """Of `SHARED_EXPERT`, `ONE_STAGE` and `GATES`: layers that every rank has whole."""
    paddings: tuple[Padding, ...] = ()
    """Of routed experts, on the device."""
    whole_towers: bool = False
    """A rank has towers for images and sound whole."""
    marlin: bool = True
    """The device has Marlin's kernels for experts in integers."""
    plain_experts: bool = False
    """Experts are plain, however their checkpoint stores them."""

    @property
    def of_experts(self) -> int:
        """Return the ranks that routed experts are divided among."""
        return self.ranks * self.engines


def split_of(plan: Plan, loaded: Model | None = None, **changes: Any) -> Split:
    """Return among how many ranks the layers of a plan's model are divided; with other settings.

    loaded: the model whose experts are meant, where it is another one.
    """

    def of(name: str) -> Any:
        return changes.get(name, getattr(plan.settings, name))

    # run_engine_core makes engines of a model without experts independent
    engines = of("data_parallel") if plan.model.num_experts else 1
    ranks = of("tensor_parallel")
    # One rank has all experts whole either way.
    keeps = of("enable_expert_parallel") and ranks * engines > 1
    repeated: frozenset[str] = frozenset()
    # ParallelConfig.use_sequence_parallel_moe, with the default exchange between ranks
    if keeps and ranks > 1 and engines > 1:
        staged = of("pipeline_parallel") > 1
        repeated = plan.rules.repeated_layers - ({ONE_STAGE} if staged else set())
    known, loaded = plan.rules.expert_paddings, loaded or plan.model
    paddings = tuple(one for one in known if one.is_used(plan, loaded))
    repeated |= repeated_gates(plan.model, plan.platform.name)
    return Split(
        ranks=ranks,
        engines=engines,
        keeps_experts=keeps,
        repeated=repeated,
        paddings=paddings,
        whole_towers=has_whole_towers(plan),
        marlin=plan.platform.name != "rocm",
        plain_experts=has_plain_experts(plan, loaded),
    )


def has_plain_experts(plan: Plan, model: Model) -> bool:
    """Return whether experts of a model are plain on a platform, as AutoRound's may be."""
    packing, known = model.described.packing, plan.rules.quantization.plain_experts
    end = known.get(plan.platform.name)
    return bool(packing) and end is not None and packing.endswith(end)


def repeated_gates(model: Model, platform: str) -> frozenset[str]:
    """Return `GATES` where Marlin's kernels need more of them than a rank's share."""
    # QwenGatedDeltaNetAttention.maybe_disable_tp, 0.23 and 0.33
    is_marlin = platform == "cuda" and model.quantization in OF_MARLIN
    return frozenset({GATES}) if is_marlin else frozenset()


def ranks_of(settings: Settings) -> int:
    """Return the ranks of one engine."""
    return prod(getattr(settings, name) for name in OF_ENGINE)


def gpus_of(settings: Settings) -> int:
    """Return the GPUs of all engines."""
    return prod(getattr(settings, name) for name in OF_ALL)


def context_sizes(model: Model | None, ranks: int) -> tuple[int, ...]:
    """Return the sizes of decode context parallelism that `ranks` of tensor parallelism allow."""
    attention = None if model is None else model.counted
    if model is None or attention is None:
        return (1,)
    # MLA keeps one latent on every rank, so any of them may share its tokens; others need copies of
    # one KV head (verify_with_parallel_config).
    most, shared = ranks, ranks
    if not attention.use_mla:
        most = max(1, ranks // attention.num_kv_heads)
        shared = model.total_num_attention_heads // attention.num_kv_heads
    return tuple(n for n in range(1, most + 1) if ranks % n == 0 and shared % n == 0)


def shared_tokens_text(settings: Settings, what: str) -> str | None:
    """Return why `what` is not described where ranks share the tokens of a block; None elsewhere.

    Its source was not read for such ranks: each has other tokens of the same block.
    """
    if settings.decode_context_parallel == 1:
        return None
    return (
        f"{what} is not described for decode_context_parallel = "
        f"{settings.decode_context_parallel}, where every rank has other tokens of a block. "
        "Nearest valid value: 1."
    )

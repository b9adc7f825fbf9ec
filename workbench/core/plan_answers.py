"""What a plan answers beyond its own fields: layouts, bytes, hits, offload, flex attention.

Each method is the public entrance to one room of core, which is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from workbench.core.errors import ScenarioError, check_kind, check_plan
from workbench.core.model import ENCODER_ONLY
from workbench.core.sizes import bytes_of

if TYPE_CHECKING:
    from workbench.core.byte_map.tensors import ByteMap
    from workbench.core.capacity.cache_plan import CachePlan
    from workbench.core.capacity.drafter_cost import DrafterCost
    from workbench.core.capacity.memory_answer import MemoryAnswer
    from workbench.core.capacity.occupancy import Waste
    from workbench.core.chunks.answer import Chunks
    from workbench.core.flex.plan import FlexPlan
    from workbench.core.layouts.shared_tensor import CacheViews
    from workbench.core.offload.plan import Offload
    from workbench.core.offload.transfer import Transfer
    from workbench.core.plan import Plan
    from workbench.core.prefix.answer import PrefixHits
    from workbench.core.problems import Problem
    from workbench.core.remedies import Remedy
    from workbench.core.what_if.outcomes import Grid
    from workbench.core.what_if.sensitivity import Sensitivity


class PlanAnswers:
    """The questions that a plan answers; mixed into `Plan`, which has the fields."""

    __slots__ = ()

    @property
    def _plan(self) -> Plan:
        return cast("Plan", self)

    @property
    def attention_backends(self) -> tuple[str, ...]:
        """Return the backends of all attention layers, `backend` first; none without a valid one.

        The drafter's is the last; those of caches alongside the attention are not among them.

        >>> plan.attention_backends
        ('FLASH_ATTN',)
        """
        plan = self._plan
        others = (name for _variant, name, _sizes in plan.layer_backends)
        return tuple(dict.fromkeys(filter(None, (plan.backend, *others, plan.draft_backend))))

    @property
    def is_uncached(self) -> bool:
        """Return whether no layer keeps keys and values, as tokens see later ones.

        >>> plan.is_uncached
        False
        """
        attention = self._plan.model.attention
        return attention is not None and attention.type == ENCODER_ONLY

    @property
    def kept_cache(self) -> CachePlan | None:
        """Return the cache; None where it has no groups, or where there is none.

        >>> plan.kept_cache == plan.cache
        True
        """
        cache = self._plan.cache
        return cache if cache is not None and cache.groups else None

    @property
    def no_cache_text(self) -> str:
        """Return the clause that says why there is no `kept_cache`, "" where there is one.

        >>> plan.no_cache_text
        ''
        """
        if self._plan.cache is None:
            return "the pages cannot be made equal"
        return "" if self.kept_cache else "no layer keeps keys and values, as tokens see later ones"

    def built_cache(self) -> CachePlan:
        """Return the cache where there has to be one. Errors: ScenarioError when there is none.

        >>> len(plan.built_cache().groups)
        5
        """
        if self.kept_cache is None:
            raise ScenarioError("no_cache", f"No cache: {self.no_cache_text}.")
        return self.kept_cache

    def remedies(self, problem: Problem) -> tuple[Remedy, ...]:
        """Return resolved changes that make `problem` go away, best first.

        >>> caching = wb.Scenario(model="qwen3.5-4b", enable_prefix_caching=True)
        >>> other = wb.resolve(caching, max_num_batched_tokens=512)
        >>> other.remedies(other.problems[0])[0].changes
        {'max_num_batched_tokens': 528}
        """
        from workbench.core.problems import Problem
        from workbench.core.remedies import remedies_for

        check_kind("plan.remedies", problem, Problem, "one of plan.problems")
        return remedies_for(self._plan, problem)

    def sensitivity(self) -> Sensitivity:
        """Return single changes of the scenario that change block size, padding or kernel block.

        >>> plan.sensitivity()
        unchanged: ...
        """
        from workbench.core.what_if.sensitivity import sensitivity

        return sensitivity(self._plan)

    def across(self, sizes: tuple[int, ...] = (1, 2, 4, 8)) -> Grid:
        """Resolve the scenario for every backend of its platform and tensor-parallel size.

        >>> plan.across((1, 2)).columns
        (1, 2)
        """
        from workbench.core.what_if.outcomes import backends_by_tensor_parallel

        check_kind("plan.across", sizes, Sequence, "a list of tensor-parallel sizes")
        return backends_by_tensor_parallel(self._plan, sizes)

    def figure(self, theme: str = "auto") -> Any:
        """Return the plotly figure of an attention page and a state page, to scale.

        >>> plan.figure(theme="dark").data[0].type
        'bar'
        """
        from workbench.views.pages.figure import page

        return page(self._plan, theme=theme)

    def layout(self, *, num_blocks: int, **options: Any) -> CacheViews:
        """Return shape, strides and offset of every layer's view of one tensor.

        num_blocks: manager blocks of the tensor. options: `runner`, `layout` ("NHD" or "HND"),
        `connector`, `rule`, `group`, `layer`. Errors: LayoutError, also where vLLM stops before it
        lays out anything.

        >>> plan.layout(num_blocks=3).attention.shape
        (393, 2, 16, 2, 128)
        """
        from workbench.core.layouts.of_plan import plan_layout

        return plan_layout(self._plan, num_blocks=num_blocks, **options)

    def byte_map(self, *, num_blocks: int | None = None, **options: Any) -> ByteMap:
        """Return the map from every byte of every tensor to its meaning, and back.

        num_blocks: manager blocks, by default those of the plan's memory. options: as in `layout`.
        Errors: LayoutError, also where a wrong rule makes bytes ambiguous.

        >>> plan.byte_map(num_blocks=2).tensors[0].page_bytes
        2146304
        """
        from workbench.core.byte_map.of_plan import byte_map

        return byte_map(self._plan, num_blocks=num_blocks, **options)

    def requests_that_fit(self, prompt_tokens: int) -> int | None:
        """Return how many requests of this length fit at once; None without a memory size.

        Errors: ScenarioError for a prompt that no request of this plan may have.

        >>> plan.requests_that_fit(1000)
        333
        """
        from workbench.core.capacity.occupancy import requests_that_fit

        return requests_that_fit(self._plan, self._plan.built_cache(), prompt_tokens)

    def memory(self) -> MemoryAnswer:
        """Return what one rank's memory is spent on, what the cache gets, and whether vLLM starts.

        With a named device, weights follow from config.json, and what vLLM measures at the start
        is estimated: sizes are a range then. An explicit size of the cache or of a part wins.

        >>> wb.resolve(model="qwen3-8b", device="H100").memory().starts
        'yes'
        """
        from workbench.core.capacity.memory_answer import memory_answer

        return memory_answer(self._plan)

    def waste(self, prompt_tokens: int) -> Waste:
        """Return where the bytes go that one request of this length reserves.

        Errors: ScenarioError for a prompt that no request of this plan may have.

        >>> plan.waste(1000).reserved_bytes
        64389120
        """
        from workbench.core.capacity.occupancy import waste

        return waste(self._plan, self._plan.built_cache(), prompt_tokens)

    def drafter_cost(self) -> DrafterCost | None:
        """Return what the drafter costs the cache; None where it has no layers.

        >>> plan.drafter_cost() is None
        True
        """
        from workbench.core.capacity.drafter_cost import drafter_cost

        return drafter_cost(self._plan)

    def hits(self) -> PrefixHits:
        """Return what prefix caching can reuse: `.hit(prompt, shared)`, `.smallest_prefix()`.

        Errors: ValueError when the plan has no cache.

        >>> wb.resolve(plan.scenario, enable_prefix_caching=True).hits()
        smallest prefix ...
        """
        from workbench.core.prefix.answer import PrefixHits
        from workbench.core.prefix.hits import caching_of

        return PrefixHits(self._plan, caching_of(self._plan))

    def offload(self, **request: Any) -> Offload:
        """Return what vLLM's offload connector makes of this plan.

        request: `cpu_bytes_to_use` (bytes over all ranks, or a text such as "64 GiB"),
        `block_size` (tokens), and the other fields of `OffloadRequest`. Errors: ValueError without
        a cache; ScenarioError for a size that cannot be read, or a world size that no engine with
        this tensor parallelism has.

        >>> plan.offload(cpu_bytes_to_use="64 GiB").problems[0].code
        'offload_hash_block_size'
        """
        from workbench.core.offload.plan import OffloadRequest, offload

        return offload(self._plan, OffloadRequest(**request))

    def transfer(self, decode: Plan) -> Transfer:
        """Compare this plan, which prefills, with the plan of a decode engine.

        Errors: ValueError when a side has no kernel block.

        >>> plan.transfer(plan).common_block_size
        2096
        """
        from workbench.core.offload.transfer import transfer

        return transfer(self._plan, decode)

    def chunks(self, *others: Plan, **request: Any) -> Chunks:
        """Return the legal chunk sizes of a connector for this plan, and for others of one store.

        request: as in `wb.chunks`: `connector`, `chunk_tokens`, `prompt_tokens`. Errors: as there.

        >>> side = wb.resolve(plan.scenario, enable_prefix_caching=True)
        >>> side.chunks(chunk_tokens=256).problems[-1].code
        'chunk_not_multiple'
        """
        from workbench.core.chunks.request import chunks
        from workbench.core.plan import Plan

        for other in others:
            check_plan("plan.chunks", other, Plan)
        return chunks([self._plan, *others], **request)

    def flex(self, shared_memory_bytes: int | str | None = None) -> FlexPlan | None:
        """Return the flex attention's nested sizes; None with another backend.

        shared_memory_bytes: opt-in bytes of one program on the device, as vLLM queries them, or a
        text such as "99 KiB".

        >>> plan.flex() is None
        True
        """
        from workbench.core.flex.plan import flex_plan

        return flex_plan(self._plan, bytes_of(shared_memory_bytes, "shared_memory_bytes"))

    def link(self) -> str:
        """Return what follows the address of a front door, so that it opens with this scenario.

        >>> wb.resolve(model="qwen3.5-4b", tensor_parallel=2).link()
        '#scenario={"model":"qwen3.5-4b","tensor_parallel":2}'
        """
        from workbench.scenario.links import link_of

        return link_of(self._plan.scenario)

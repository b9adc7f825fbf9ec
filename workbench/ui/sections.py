"""The pickers of the panel, section by section: what most people pick stands open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import ipywidgets as widgets

from workbench.core.model import Model
from workbench.core.settings import Settings
from workbench.core.what_if.choices import tensor_parallel_sizes
from workbench.models import catalog_names
from workbench.scenario import Scenario
from workbench.scenario_values import allowed_values
from workbench.ui.controls import (
    Candidates,
    Choice,
    Layers,
    Memory,
    MemoryByRank,
    ModelPath,
    Number,
    Picker,
    Share,
)

DEFAULTS = Settings()


@dataclass(frozen=True, slots=True)
class Section:
    """Pickers under one title; the first section has none and is always open."""

    title: str
    pickers: tuple[Picker, ...]

    def grid(self) -> widgets.GridBox:
        """The pickers, as many side by side as fit."""
        return widgets.GridBox(
            [picker.widget for picker in self.pickers],
            layout=widgets.Layout(
                grid_template_columns="repeat(auto-fill, minmax(300px, 1fr))", grid_gap="2px 14px"
            ),
        )

    def title_for(self, scenario: Scenario) -> str:
        """The title, with the number of fields that are not as vLLM has them."""
        fields = {picker.field for picker in self.pickers}
        count = sum(
            getattr(scenario, field) != getattr(DEFAULTS, field) for field in sorted(fields)
        )
        return f"{self.title} ({count} set)" if count else self.title


class Controls:
    """Every picker: the open section, and the others folded below it."""

    def __init__(self) -> None:
        self.sections = build_sections()
        self.pickers = tuple(picker for section in self.sections for picker in section.pickers)
        first, *others = self.sections
        self._folded = widgets.Accordion(
            [section.grid() for section in others],
            titles=tuple(section.title for section in others),
            selected_index=None,
        )
        self.widget = widgets.VBox([first.grid(), self._folded])

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """Show `scenario`; a folded section says how much of it is set."""
        for picker in self.pickers:
            picker.refresh(scenario, model)
        self._folded.titles = tuple(section.title_for(scenario) for section in self.sections[1:])


def _words(field: str, *, nullable: bool = False) -> Candidates:
    def candidates(scenario: Scenario, _model: Model | None) -> Iterable[Any]:
        words = allowed_values(field, scenario.rules) or ()
        return (None, *words) if nullable else words

    return candidates


def _capabilities(scenario: Scenario, _model: Model | None) -> Iterable[Any]:
    if scenario.platform != "cuda":
        return (scenario.compute_capability,)
    return (None, *(allowed_values("compute_capability") or ()))


def _sizes(_scenario: Scenario, model: Model | None) -> Iterable[Any]:
    return (1,) if model is None else tensor_parallel_sizes(model)


def _rules(_scenario: Scenario, _model: Model | None) -> Iterable[Any]:
    from workbench.core.rules import RULE_SETS

    return tuple(RULE_SETS)


def build_sections() -> tuple[Section, ...]:
    """Every section with its pickers, in the order in which they are laid out."""
    return (
        Section("", _first()),
        Section("More settings", _more()),
        Section("Memory budget of one device", _budget()),
        Section("Flex attention", _flex()),
    )


def _first() -> tuple[Picker, ...]:
    return (
        Choice("model", "Model", lambda _scenario, _model: catalog_names(), free=True),
        ModelPath(),
        Choice("platform", "Platform", _words("platform"), free=True),
        Choice("backend", "Backend", _words("backend", nullable=True)),
        Choice("tensor_parallel", "Tensor parallel", _sizes),
        Choice("kv_cache_dtype", "KV-cache dtype", _words("kv_cache_dtype")),
        Choice(
            "enable_prefix_caching", "Prefix caching", lambda _scenario, _model: (None, True, False)
        ),
        Choice("mamba_cache_mode", "Cache mode", _words("mamba_cache_mode", nullable=True)),
        Number("block_size", "Block size", "--block-size: the granule of the alignment, in tokens"),
        Number("max_model_len", "Max model len", "--max-model-len, in tokens"),
        Memory("kv_cache_memory_bytes", "KV memory", "Per rank, for example 20 GiB or 80 GB"),
        Choice("rules", "vLLM rules", _rules, free=True),
    )


def _more() -> tuple[Picker, ...]:
    return (
        Choice(
            "compute_capability",
            "Capability",
            _capabilities,
            free=True,
            tip="CUDA compute capability; other platforms do not read it",
            nothing="9.0 (default)",
        ),
        Choice("dtype", "Model dtype", _words("dtype")),
        Choice("mamba_cache_dtype", "Conv dtype", _words("mamba_cache_dtype")),
        Choice("mamba_ssm_cache_dtype", "State dtype", _words("mamba_ssm_cache_dtype")),
        Number("mamba_block_size", "Mamba block", "--mamba-block-size, in tokens"),
        Number("max_num_batched_tokens", "Token budget", "--max-num-batched-tokens"),
        Number("max_num_seqs", "Max sequences", "--max-num-seqs"),
        Choice(
            "num_speculative_tokens", "Draft tokens", lambda _scenario, _model: range(9), free=True
        ),
        Choice(
            "speculative_method",
            "Draft method",
            _words("speculative_method", nullable=True),
            free=True,
            tip="--speculative-config method: which drafter proposes the draft tokens",
            nothing="mtp if the checkpoint has it, else ngram",
        ),
        Number("num_gpu_blocks_override", "Blocks override", "--num-gpu-blocks-override"),
        MemoryByRank(
            "kv_cache_memory_bytes_by_rank",
            "Memory by rank",
            "Of every rank, where they differ: 20 GiB, 18 GiB",
        ),
        Choice(
            "disable_hybrid_kv_cache_manager",
            "No hybrid manager",
            lambda _scenario, _model: (False, True),
            free=True,
            tip="--disable-hybrid-kv-cache-manager: windows are kept whole",
        ),
        Choice(
            "kv_cache_layout",
            "Cache layout",
            _words("kv_cache_layout", nullable=True),
            free=True,
            tip="VLLM_KV_CACHE_LAYOUT; sizes anything from 0.33 on only",
        ),
        Choice(
            "hidden_state_layers",
            "Hidden states",
            lambda _scenario, _model: range(9),
            free=True,
            tip="Layers whose hidden states extract_hidden_states keeps in the cache",
        ),
        Layers(
            "kv_cache_dtype_skip_layers",
            "Plain layers",
            "--kv-cache-dtype-skip-layers: numbers, or sliding_window",
        ),
        Choice(
            "gdn_flashinfer_prefill",
            "GDN prefill",
            lambda _scenario, _model: (None, True, False),
            free=True,
            tip="--gdn-prefill-backend: on for flashinfer, off for triton; by default 0.33 uses "
            "FlashInfer on Hopper, and on Blackwell with CUDA 13",
        ),
        Choice(
            "trtllm_kernels",
            "TRT-LLM kernels",
            lambda _scenario, _model: (False, True),
            free=True,
            tip="Whether FlashInfer can load them (SM10x); 0.33 then splits into larger pages",
        ),
    )


def _budget() -> tuple[Picker, ...]:
    return (
        Memory("device_memory_bytes", "Device memory", "Of one device, for example 80 GiB"),
        Share("gpu_memory_utilization", "Utilisation", "--gpu-memory-utilization, 0.92 by default"),
        Memory("weights_bytes", "Weights", "On one rank: about the safetensors divided by TP"),
        Memory("activation_bytes", "Activations", "Peak of one step, and what torch does not see"),
        Memory("cuda_graph_bytes", "Graph reserve", "What vLLM estimates for CUDA graphs"),
    )


def _flex() -> tuple[Picker, ...]:
    return (
        Number("flex_attn_block_m", "Tile, queries", "flex_attn_block_m: BLOCK_M of the kernel"),
        Number("flex_attn_block_n", "Tile, keys", "flex_attn_block_n: BLOCK_N of the kernel"),
        Number("flex_attn_q_block_size", "Mask block, q", "flex_attn_q_block_size, in tokens"),
        Number("flex_attn_kv_block_size", "Mask block, kv", "flex_attn_kv_block_size, in tokens"),
        Choice(
            "batch_invariant",
            "Batch invariant",
            lambda _scenario, _model: (False, True),
            free=True,
            tip="VLLM_BATCH_INVARIANT=1",
        ),
        Choice(
            "torch_version",
            "torch",
            lambda _scenario, _model: (None, "2.8", "2.9"),
            free=True,
            tip="Before 2.9 the default mask block is 128 x 128",
            nothing="2.9 or later (vLLM's)",
        ),
    )

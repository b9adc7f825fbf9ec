"""The fields of what takes memory next to the cache; bytes are per rank."""

from dataclasses import dataclass
from typing import Any

from workbench.core.arithmetic import GIB
from workbench.core.capacity.adapters import RANKS
from workbench.core.capacity.memory_budget import DEFAULT_GPU_MEMORY_UTILIZATION
from workbench.core.media import AUDIO, ENCODER_MODES, IMAGE, UNLIMITED, VIDEO
from workbench.core.sizes import SMALLEST_BARE
from workbench.scenario.field import declare
from workbench.scenario.kinds import Switch, Words
from workbench.scenario.numbers import Bytes, Count, Integer, OneOf, Share


def _measured(label: str, tip: str, usual: int) -> Any:
    """Return a size that vLLM measures itself."""
    examples = (None, usual)
    return declare(None, Bytes(), label, tip, of_model=True, examples=examples, none="not set")


@dataclass(frozen=True)
class MemoryFields:
    """What vLLM measures while it starts, given here."""

    device_memory_bytes: int | None = declare(
        None,
        Bytes(low=SMALLEST_BARE),
        "Device memory",
        "Memory of one device, for example 80 GiB; without it that of the named device",
        examples=(None, 24 * GIB, 80 * GIB, 192 * GIB),
    )
    gpu_memory_utilization: float | None = declare(
        None,
        Share(),
        "GPU memory utilization",
        f"{{flag}}, {DEFAULT_GPU_MEMORY_UTILIZATION} by default",
        examples=(None, None, None, 0.5, 0.95),
    )
    weights_bytes: int | None = _measured(
        "Weights per rank",
        "Weights on one rank: about the safetensors divided by TP, for example 594 GB / 8",
        8 * GIB,
    )
    activation_bytes: int | None = _measured(
        "Activations", "Peak activation memory per step, plus non-torch allocations", 2 * GIB
    )
    cuda_graph_bytes: int | None = _measured(
        "Graph reserve", "Memory that vLLM estimates for CUDA graphs", GIB
    )


def _limit(label: str, kind: str) -> Any:
    return declare(
        None,
        Count(high=UNLIMITED, unit="per request"),
        label,
        "{flag}: the most of them that a request may have",
        flag=f"--limit-mm-per-prompt.{kind}",
        none="as many as fit",
        examples=(*[None] * 9, 0, 1),
        tried=(0,),
    )


@dataclass(frozen=True)
class PartFields:
    """What is loaded next to the language model: towers for images and sound, adapters."""

    language_model_only: bool = declare(
        False,
        Switch(),
        "Text only",
        "{flag}: no towers for images, video and sound, and no profile of them",
        examples=(*[False] * 9, True),
        tried=(True,),
    )
    images_per_prompt: int | None = _limit("Images", IMAGE)
    videos_per_prompt: int | None = _limit("Videos", VIDEO)
    audios_per_prompt: int | None = _limit("Sounds", AUDIO)
    mm_encoder_tp_mode: str = declare(
        ENCODER_MODES[0],
        Words(ENCODER_MODES),
        "Towers of ranks",
        "{flag}: ranks divide the weights of a tower, or have it whole and divide the images",
        examples=(*[ENCODER_MODES[0]] * 9, *ENCODER_MODES),
    )
    enable_lora: bool = declare(
        False,
        Switch(),
        "LoRA",
        "{flag}: room for adapters next to the weights",
        examples=(*[False] * 9, True),
    )
    max_loras: int = declare(
        1,
        Integer(high=1024, unit="adapters"),
        "Adapters of a step",
        "{flag}, with --enable-lora",
        examples=(1, 1, 4),
    )
    max_lora_rank: int = declare(
        16,
        OneOf(of=RANKS),
        "Rank of adapters",
        "{flag}, with --enable-lora",
        examples=(16, 16, 64),
    )

"""The fields of the scheduler: what one of its steps may hold, and how steps follow each other."""

from dataclasses import dataclass

from workbench.core.batch_defaults import PERFORMANCE_MODES, SERVE, USAGE_CONTEXTS
from workbench.core.graph_modes import GRAPH_MODES
from workbench.scenario.field import declare
from workbench.scenario.kinds import Switch, Words
from workbench.scenario.numbers import Integer, Several, Tokens

ENTRY_POINTS = {context: name for name, context in USAGE_CONTEXTS.items()}
"""vLLM's name of an entry point -> ours."""


@dataclass(frozen=True)
class StepFields:
    """The fields of the section for the scheduler."""

    max_num_batched_tokens: int | None = declare(
        None,
        Tokens(),
        "Max batched tokens",
        "{flag} of one scheduler step",
        examples=(None, None, None, 1024, 2048, 4096, 8192),
        tried=(2048,),
    )
    max_num_seqs: int | None = declare(
        None,
        Integer(unit="sequences"),
        "Max sequences",
        "{flag} of one scheduler step",
        examples=(None, None, 64, 512),
        tried=(256, 1024),
    )
    entry_point: str = declare(
        SERVE,
        Words(tuple(USAGE_CONTEXTS), normal=ENTRY_POINTS.get),
        "Started by",
        "`vllm serve`, or `LLM(...)` in Python, which has larger default budgets",
        also=("usage_context",),
        examples=(SERVE, SERVE, *USAGE_CONTEXTS),
    )
    enable_chunked_prefill: bool | None = declare(
        None,
        Switch(),
        "Chunked prefill",
        "{flag}, or --no-enable-chunked-prefill: a prompt may take several steps",
        examples=(*[None] * 11, False),
    )
    async_scheduling: bool | None = declare(
        None,
        Switch(),
        "Async scheduling",
        "{flag}, or --no-async-scheduling: a step is scheduled before the last one has ended",
        examples=(*[None] * 9, True, False),
    )
    v2_model_runner: bool | None = declare(
        None,
        Switch(),
        "V2 model runner",
        "{flag}: 1 for the second model runner, 0 for the first one",
        flag="VLLM_USE_V2_MODEL_RUNNER",
        examples=(*[None] * 9, True, False),
    )
    performance_mode: str = declare(
        PERFORMANCE_MODES[0],
        Words(PERFORMANCE_MODES),
        "Performance mode",
        "{flag}: throughput doubles the default budgets of a step",
        examples=(*[PERFORMANCE_MODES[0]] * 9, *PERFORMANCE_MODES),
    )
    enforce_eager: bool = declare(
        False,
        Switch(),
        "Enforce eager",
        "{flag}: no CUDA graphs, and no memory for them",
        examples=(*[False] * 9, True),
    )
    cudagraph_mode: str | None = declare(
        None,
        Words(GRAPH_MODES, normal=str.upper),
        "Graph mode",
        "{flag}: which steps have a CUDA graph, FULL_AND_PIECEWISE by default",
        flag="--compilation-config.cudagraph_mode",
        examples=(*[None] * 9, *GRAPH_MODES),
        tried=("FULL_DECODE_ONLY",),
    )
    max_cudagraph_capture_size: int | None = declare(
        None,
        Tokens(),
        "Largest graph",
        "{flag}: tokens of the largest step that has a CUDA graph",
        also=("--compilation-config.max_cudagraph_capture_size",),
        examples=(*[None] * 9, 64, 1024),
        tried=(512,),
    )
    cudagraph_capture_sizes: tuple[int, ...] | None = declare(
        None,
        Several(Tokens(), "number per graph"),
        "Graph sizes",
        "{flag}: tokens of each step that has a CUDA graph, for example 1,2,4,8",
        also=("--compilation-config.cudagraph_capture_sizes",),
        examples=(*[None] * 9, (1, 2, 4, 8, 16, 32)),
    )

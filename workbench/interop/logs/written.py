"""Start-up logs as vLLM prints them for a scenario, up to the error with which the start ends.

The messages are those of vLLM 0.23; the places and times before them are examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from workbench.core.arithmetic import GIB
from workbench.core.capacity.memory_budget import explicit_bytes
from workbench.core.plan import Plan
from workbench.core.stages.speculation import method_for
from workbench.core.versions import RULE_SETS
from workbench.interop.logs.releases import version_of
from workbench.models import load_model, repository
from workbench.scenario import FIELDS, Scenario, Settings

DEFAULTS = Settings()
ARGUMENTS = {
    name: field.argument[0]
    for name, field in FIELDS.items()
    if field.argument[0] and not field.argument[1] and name != "model"
}
"""Field -> the argument that has its value."""
MEASURED = ("kv_cache_memory_bytes", "kv_cache_memory_bytes_by_rank")
API, CORE = "APIServer pid=14", "EngineCore pid=99"
PLACES = (
    ("vLLM API server", API, "utils.py:302"),
    ("non-default args", API, "utils.py:238"),
    ("Automatically", API, "__init__.py:247"),
    ("Resolved", API, "model.py:611"),
    ("Using max", API, "model.py:1745"),
    ("Chunked", API, "scheduler.py:240"),
    ("Initializing", CORE, "core.py:114"),
    ("Starting to load", CORE, "gpu_model_runner.py:5093"),
    ("Loading weights", CORE, "default_loader.py:398"),
    ("Setting", CORE, "interface.py:671"),
    ("Padding", CORE, "interface.py:695"),
    ("Available", CORE, "gpu_worker.py:481"),
    ("", CORE, "kv_cache_utils.py:1744"),
)
"""How a message begins, which process prints it, and where."""
CAPACITY = ("Add ", "GPU KV", "XPU KV", "CPU KV", "Maximum concurrency", "kv ")
"""How messages begin that follow from the memory, and come after it."""
SITE = "/usr/local/lib/python3.12/dist-packages/vllm"
FATAL = "core.py:1195"
CONFIG = (
    "AttentionSelectorConfig(head_size=128, dtype={dtype}, kv_cache_dtype={kv_cache_dtype}, "
    "block_size={block_size}, use_mla=False, has_sink=False, use_sparse=False, "
    "use_batch_invariant=False)"
)
ENDINGS = {
    "max_model_len_too_long": "max_position_embeddings=4096 or model_max_length=None in model's "
    "config.json).",
    "backend_not_valid": " ['head_size not supported']",
    "plain_layers_refused": " ['head_size not supported']",
    "not_one_type": "",
    "cannot_auto_fit": " not enough GPU memory available to serve even a single token.",
    "pages_not_equal": " Cannot unify by adjusting block_size.",
}
"""Code -> how vLLM's message goes on after the words that the rules know."""


class Failing(Protocol):
    """What ends a start: a problem of a plan, or a refusal."""

    @property
    def code(self) -> str:
        """Return its code."""

    @property
    def vllm_text(self) -> str | None:
        """Return how vLLM's message begins."""


def method_of(scenario: Scenario) -> str | None:
    """Return the method that vLLM is given: its own choice is written down, too."""
    rules = RULE_SETS[scenario.rules].speculation
    return scenario.speculative_method or method_for(load_model(scenario.model), scenario, rules)


def arguments_of(scenario: Scenario) -> dict[str, Any]:
    """Return `non-default args` of a scenario whose memory is measured, not set."""
    given = {
        ARGUMENTS[field]: FIELDS[field].kind.write(getattr(scenario, field))
        for field in ARGUMENTS
        if field not in MEASURED and getattr(scenario, field) != getattr(DEFAULTS, field)
    }
    name = repository(scenario.model) or scenario.model
    given |= {"model_tag": name, "model": name}
    if scenario.num_speculative_tokens:
        given["speculative_config"] = {
            "method": method_of(scenario),
            "num_speculative_tokens": scenario.num_speculative_tokens,
        }
    return given


def settled_of(scenario: Scenario, plan: Plan) -> str:
    """Return the engine's config line: what vLLM has made of the arguments."""
    drafts = (
        f"SpeculativeConfig(method={method_of(scenario)!r}, model=None, num_spec_tokens="
        f"{scenario.num_speculative_tokens})"
        if scenario.num_speculative_tokens
        else None
    )
    device = "cuda" if scenario.platform == "rocm" else scenario.platform
    return (
        f"Initializing a V1 LLM engine (v{version_of(scenario.rules)}) with config: "
        f"model={repository(scenario.model) or scenario.model!r}, speculative_config={drafts}, "
        f"dtype=torch.{plan.model_dtype}, max_seq_len={plan.max_model_len}, download_dir=None, "
        f"tensor_parallel_size={scenario.tensor_parallel}, "
        f"pipeline_parallel_size={scenario.pipeline_parallel}, "
        f"data_parallel_size={scenario.data_parallel}, "
        f"decode_context_parallel_size={scenario.decode_context_parallel}, "
        f"kv_cache_dtype={scenario.kv_cache_dtype}, device_config={device}, "
        f"enable_prefix_caching={plan.enable_prefix_caching}, enable_chunked_prefill=True"
    )


def error_text(scenario: Scenario, problem: Failing) -> str:
    """Return vLLM's whole message for a problem or a refusal."""
    text = problem.vllm_text or ""
    if text == "No valid attention backend found for":
        known = {
            "dtype": "torch.bfloat16" if scenario.dtype == "auto" else f"torch.{scenario.dtype}",
            "kv_cache_dtype": scenario.kv_cache_dtype,
            "block_size": scenario.block_size,
        }
        text += f" {scenario.platform} with {CONFIG.format(**known)}. Reasons: {{}}."
    return text + ENDINGS.get(problem.code, " Please see the documentation.")


def start_log(
    scenario: Scenario, problem: Failing, plan: Plan | None = None, *, arguments: bool = True
) -> str:
    """Return the lines of a start that ends with `problem`; `plan`: as far as there is one."""
    lines = [
        f"vLLM API server version {version_of(scenario.rules)}",
        f"Automatically detected platform {scenario.platform}.",
    ]
    if arguments:
        lines.append(f"non-default args: {arguments_of(scenario)}")
    lines.append(f"Resolved architecture: {load_model(scenario.model).architecture}")
    budget = scenario.max_num_batched_tokens
    if budget is not None:
        lines.append(f"Chunked prefill is enabled with max_num_batched_tokens={budget}.")
    if plan is not None:
        lines.append(settled_of(scenario, plan))
        lines.append(f"Starting to load model {repository(scenario.model) or scenario.model}...")
        lines.append("Loading weights took 12.34 seconds")
        sizes = [line for line in plan.log_lines if not line.startswith("Available")]
        capacity = [line for line in sizes if line.startswith(CAPACITY)]
        lines += [line for line in sizes if line not in capacity]
        if memory := explicit_bytes(scenario):
            lines.append(f"Available KV cache memory: {round(min(memory) / GIB, 2)} GiB")
        lines += capacity
    head = (f"{_head(line, second)}{line}" for second, line in enumerate(lines, 1))
    text = error_text(scenario, problem)
    ending = _early_ending(text) if plan is None else _ending(text, len(lines) + 1)
    return "\n".join([*head, *ending])


def _head(line: str, second: int, level: str = "INFO") -> str:
    process, place = next(entry[1:] for entry in PLACES if line.startswith(entry[0]))
    return f"({process}) {level} 11-20 10:00:{second:02} [{place}] "


def _early_ending(text: str) -> Iterator[str]:
    """Yield what the server prints of a configuration that it refuses before an engine starts."""
    yield f"({API}) Traceback (most recent call last):"
    yield f'({API})   File "/usr/local/bin/vllm", line 10, in <module>'
    yield f"({API})     sys.exit(main())"
    yield f"({API}) pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig"
    yield f"({API})   Value error, {text} [type=value_error, input_value=ArgsKwargs((), {{}})]"
    yield f"({API})     For further information visit https://errors.pydantic.dev/2.12/v/value_error"


def _ending(text: str, second: int) -> Iterator[str]:
    """Yield the traceback of the engine, its error, and what the server makes of it."""
    head = f"({CORE}) ERROR 11-20 10:00:{second:02} [{FATAL}] "
    yield f"{head}EngineCore failed to start."
    yield f"{head}Traceback (most recent call last):"
    yield f'{head}  File "{SITE}/v1/engine/core.py", line 1164, in run_engine_core'
    yield f"{head}    engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)"
    yield f"{head}ValueError: {text}"
    yield f"({API}) Traceback (most recent call last):"
    yield f'({API})   File "/usr/local/bin/vllm", line 10, in <module>'
    yield f"({API})     sys.exit(main())"
    yield (
        f"({API}) RuntimeError: Engine core initialization failed. See root cause above. Failed "
        "core proc(s): {'EngineCore': 1}"
    )

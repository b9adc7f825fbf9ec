"""The fields that most people pick: model, place, dtypes, blocks."""

from dataclasses import dataclass

from workbench.core.devices import DEVICES
from workbench.core.platforms import PLATFORMS
from workbench.core.ranks import context_sizes
from workbench.core.versions import DEFAULT, RULE_SETS
from workbench.core.what_if.choices import pipeline_sizes, tensor_parallel_sizes
from workbench.models import catalog_names
from workbench.scenario import examples, kinds
from workbench.scenario.field import Field, any_word, declare, dtype_field
from workbench.scenario.numbers import Bytes, Integer, Several, Tokens

DEFAULT_MODEL = "nemotron-3-nano-30b-a3b"
MODEL = Field(
    name="model",
    default=DEFAULT_MODEL,
    kind=kinds.ModelReference(),
    label="Model",
    tip="Model of the catalog (`workbench models`)",
    flag="--model",
    also=("model_tag",),
    offer=lambda _settings, _model: catalog_names(),
    examples=lambda _field, _chosen, _rules: catalog_names(),
)
"""The field that is not one of the settings."""
CONNECTORS = {name for rules in RULE_SETS.values() for name in rules.offload.connectors}


@dataclass(frozen=True)
class EngineFields:
    """The fields of the section that is always open."""

    platform: str = declare(
        "cuda",
        kinds.Words(
            tuple(PLATFORMS),
            normal=lambda text: text.casefold() if text.casefold() in PLATFORMS else None,
        ),
        "Platform",
        "Platform that vLLM runs on",
        also=("device_config",),
        examples=("cuda", "cuda", *PLATFORMS),
    )
    device: str | None = declare(
        None,
        kinds.DeviceName(tuple(DEVICES)),
        "Device",
        "Name of the device, for example H100: sets platform, capability and memory",
        also=("device_name", "gpu", "gpu_name"),
        none="not named",
        examples=examples.devices_of_platform,
    )
    backend: str | None = declare(
        None,
        kinds.Words(
            lambda rules: tuple(n for n, one in rules.backends.items() if one.is_selectable),
            normal=kinds.enum_member,
        ),
        "Backend",
        "{flag}",
        flag="--attention-backend",
        also=("--attention-config.backend",),
        only_legal=True,
        examples=examples.backends_of_model,
    )
    tensor_parallel: int = declare(
        1,
        Integer(high=1024),
        "Tensor parallel",
        "{flag}, a divisor of the number of attention heads",
        flag="--tensor-parallel-size",
        also=("tp",),
        offer=lambda _settings, model: (1,) if model is None else tensor_parallel_sizes(model),
        only_legal=True,
        examples=(1, 2, 2, 2, 4, 4, 4, 8, 8, 16, 3),
        sweep=(1, 2, 4, 8),
        tried=range(1, 17),
    )
    pipeline_parallel: int = declare(
        1,
        Integer(high=1024),
        "Pipeline parallel",
        "{flag}: stages, each with a part of the layers",
        flag="--pipeline-parallel-size",
        also=("pp",),
        offer=lambda _settings, model: (1,) if model is None else pipeline_sizes(model),
        only_legal=True,
        examples=(1, 1, 1, 1, 2, 3, 4),
        tried=range(1, 9),
    )
    pipeline_layers: tuple[int, ...] | None = declare(
        None,
        Several(Integer(low=0, unit="layers"), "number per stage"),
        "Layers of the stages",
        "{flag}: how many layers each pipeline stage has, for example 16,32",
        flag="VLLM_PP_LAYER_PARTITION",
        none="as equal as possible",
        of_model=True,
        examples=examples.unequal_stages,
    )
    data_parallel: int = declare(
        1,
        Integer(high=1024),
        "Data parallel",
        "{flag}: engines; those of a mixture of experts divide its experts among all ranks",
        flag="--data-parallel-size",
        also=("dp",),
        offer=lambda _settings, _model: tuple(2**n for n in range(7)),
        only_legal=True,
        examples=(1, 1, 1, 1, 2, 4, 8),
    )
    enable_expert_parallel: bool = declare(
        False,
        kinds.Switch(),
        "Expert parallel",
        "{flag}: every rank has some of the routed experts whole, not a share of each",
        only_legal=True,
        examples=(False, False, False, True),
    )
    decode_context_parallel: int = declare(
        1,
        Integer(high=1024),
        "Decode context parallel",
        "{flag}: ranks that share the tokens of a block, of those with the same KV heads",
        flag="--decode-context-parallel-size",
        also=("dcp",),
        offer=lambda settings, model: context_sizes(model, settings.tensor_parallel),
        only_legal=True,
        examples=examples.context_ranks,
    )
    kv_cache_dtype: str = dtype_field(
        lambda rules: rules.kv_cache_dtypes,
        "KV-cache dtype",
        "{flag}; auto is the model's dtype",
        sweep=("auto", "fp8"),
    )
    block_size: int | None = declare(
        None,
        Tokens(step=16),
        "Block size",
        "{flag}, in tokens (alignment granularity, not a cap)",
        examples=(None, None, None, None, 16, 32, 64, 128, 256, 528, 48, 1056),
        sweep=(None, 16, 32, 64, 128, 256),
    )
    enable_prefix_caching: bool | None = declare(
        None,
        kinds.Switch(),
        "Prefix caching",
        "{flag}, or --no-enable-prefix-caching",
        only_legal=True,
        examples=(None, True, True, False),
        sweep=(False, True),
    )
    mamba_cache_mode: str | None = declare(
        None,
        kinds.Words(lambda rules: rules.cache_modes),
        "Mamba cache mode",
        "{flag}: which states prefix caching keeps",
        only_legal=True,
        examples=any_word,
        sweep=(None, "align", "all"),
    )
    max_model_len: int | None = declare(
        None,
        Tokens(named={"auto": -1}),
        "Max model length",
        "{flag}, in tokens; -1 for the longest that fits into the memory",
        also=("max_seq_len",),
        examples=(None, None, 2048, 4096, 32768, -1),
    )
    kv_cache_memory_bytes: int | None = declare(
        None,
        Bytes(),
        "KV-cache memory per GPU",
        "{flag} per rank, for example 20 GiB or 80 GB; replaces the memory budget",
        examples=(None, 4 * 2**30, 20 * 2**30, 60 * 2**30),
    )
    kv_connector: str | None = declare(
        None,
        kinds.Words(
            lambda rules: tuple(rules.offload.connectors),
            normal=lambda text: text if text in CONNECTORS else None,
        ),
        "KV connector",
        "{flag}: what stores blocks outside of the engine, or moves them to another",
        flag="--kv-transfer-config.kv_connector",
        none="none",
        examples=examples.connectors,
    )
    rules: str = declare(
        DEFAULT,
        kinds.Words(lambda _rules: tuple(RULE_SETS)),
        "vLLM version",
        "vLLM version whose rules decide",
        also=("vllm",),
    )

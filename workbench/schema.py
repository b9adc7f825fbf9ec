"""The published JSON schema of scenarios and plans."""

from __future__ import annotations

from typing import Any

from workbench.core.rules import RULE_SETS
from workbench.scenario import FIELDS
from workbench.scenario_values import (
    BYTES,
    RANGES,
    SHARES,
    VERSION,
    allowed_values,
    speculative_methods,
)

BOOLEANS = ("enable_prefix_caching", "gdn_flashinfer_prefill")
OWN_FORM: dict[str, dict[str, Any]] = {
    "model": {
        "type": ["string", "object"],
        "description": "catalog name, path of a config.json, hub id, or the config object",
    },
    "batch_invariant": {"type": "boolean"},
    "kv_cache_dtype_skip_layers": {
        "type": ["array", "null"],
        "items": {"type": "string", "description": 'a layer number, or "sliding_window"'},
    },
    "trtllm_kernels": {"type": "boolean"},
    "disable_hybrid_kv_cache_manager": {"type": "boolean"},
    "kv_cache_memory_bytes_by_rank": {
        "type": ["array", "null"],
        "minItems": 1,
        "items": {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": RANGES["kv_cache_memory_bytes"][1]},
                {"type": "string", "description": 'with a unit: "20 GiB"'},
            ]
        },
    },
    "kv_cache_layout": {
        "enum": [
            *dict.fromkeys(
                word
                for rules in RULE_SETS
                for word in allowed_values("kv_cache_layout", rules) or ()
            ),
            None,
        ]
    },
    "speculative_method": {"enum": [*speculative_methods(), None]},
    "torch_version": {"type": ["string", "null"], "pattern": f"^{VERSION}$"},
}
NOT_NULL = ("platform", "tensor_parallel", "dtype", "kv_cache_dtype", "rules")
NOT_NULL_STATE = (
    "mamba_cache_dtype",
    "mamba_ssm_cache_dtype",
    "num_speculative_tokens",
    "hidden_state_layers",
)


def scenario_schema() -> dict[str, Any]:
    """Return the schema of one scenario: every field but `model` is optional."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["model"],
        "properties": {name: _scenario_field(name) for name in FIELDS},
    }


def _scenario_field(name: str) -> dict[str, Any]:
    if name in OWN_FORM:
        return dict(OWN_FORM[name])
    null = name not in NOT_NULL + NOT_NULL_STATE
    if name in BOOLEANS:
        return {"type": ["boolean", "null"]}
    if name in SHARES:
        return {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1}
    if name in RANGES:
        return _number_field(name, "null" if null else None)
    words = tuple(RULE_SETS) if name == "rules" else allowed_values(name) or ()
    if name == "compute_capability":
        return {
            "type": ["string", "number", "null"],
            "description": f"on cuda one of {', '.join(words)}; not read elsewhere",
        }
    return {"enum": [*words, None] if null else list(words)}


def _number_field(name: str, null: str | None) -> dict[str, Any]:
    low, high = RANGES[name]
    field: dict[str, Any] = {"type": ["integer", null] if null else "integer"}
    field |= {"minimum": low, "maximum": high}
    if name in BYTES:
        return {"anyOf": [field, {"type": "string", "description": 'with a unit: "20 GiB"'}]}
    return {"anyOf": [field, {"const": -1}]} if name == "max_model_len" else field


_INTEGER = {"type": "integer"}
_MAYBE_INTEGER = {"type": ["integer", "null"]}
_STRING = {"type": "string"}
_MAYBE_STRING = {"type": ["string", "null"]}
_BOOLEAN = {"type": "boolean"}
_ANYTHING: dict[str, Any] = {}

_STEP = {
    "rule": _STRING,
    "title": _STRING,
    "formula": _STRING,
    "operands": {"type": "object"},
    "result": _ANYTHING,
    "unit": _STRING,
    "note": _STRING,
    "source": _STRING,
}
_PROBLEM = {
    "code": _STRING,
    "severity": {"enum": ["error", "warning"]},
    "field": _STRING,
    "message": _STRING,
    "operands": {"type": "object"},
    "vllm_text": _MAYBE_STRING,
    "remedies": {"type": "array", "items": {"type": "object"}},
}
_GROUP = {
    "spec": _STRING,
    "block_size": {**_INTEGER, "description": "tokens"},
    "page_size_bytes": _INTEGER,
    "kernel_block_size": {**_MAYBE_INTEGER, "description": "tokens"},
    "padding_layers": _INTEGER,
    "layer_names": {"type": "array", "items": _STRING},
    "layer_page_size_bytes": {
        "type": ["array", "null"],
        "items": _INTEGER,
        "description": "of every layer, if the layers of the group have different specs",
    },
}
_PLACEMENT = {
    "group": _INTEGER,
    "layer_names": {"type": "array", "items": _STRING},
    "offset": {**_INTEGER, "description": "bytes"},
    "layer_stride": {**_INTEGER, "description": "bytes"},
    "block_stride": {**_INTEGER, "description": "bytes"},
}
_TENSOR = {
    "size": {**_INTEGER, "description": "bytes"},
    "shared_by": {"type": "array", "items": _STRING},
}
_PLAN = {
    "model": _STRING,
    "rules": _STRING,
    "is_hybrid": _BOOLEAN,
    "use_mla": _BOOLEAN,
    "backend": _MAYBE_STRING,
    "plain_backend": {
        **_MAYBE_STRING,
        "description": "of attention layers in the model's dtype, in addition to a quantized cache",
    },
    "mamba_backend": _MAYBE_STRING,
    "block_size": {**_INTEGER, "description": "tokens of a manager block"},
    "mamba_block_size": {**_MAYBE_INTEGER, "description": "tokens"},
    "mamba_cache_mode": {"enum": ["none", "align", "all"]},
    "mamba_cache_dtype": _STRING,
    "mamba_ssm_cache_dtype": _STRING,
    "enable_prefix_caching": _BOOLEAN,
    "speculative_method": {**_MAYBE_STRING, "description": "null without draft tokens"},
    "model_dtype": _STRING,
    "kv_cache_dtype": _STRING,
    "max_model_len": {**_INTEGER, "description": "tokens"},
    "max_num_batched_tokens": {**_INTEGER, "description": "tokens"},
    "max_num_seqs": {**_INTEGER, "description": "sequences of a step"},
    "num_kv_heads_per_rank": _MAYBE_INTEGER,
    "head_size": {**_MAYBE_INTEGER, "description": "elements"},
    "attention_bytes_per_token": {
        **_MAYBE_INTEGER,
        "description": "of one layer, per rank, as the alignment counts them",
    },
    "attention_page_size_bytes": {
        **_MAYBE_INTEGER,
        "description": "the page that the attention layer needs",
    },
    "mamba_page_size_bytes": {**_MAYBE_INTEGER, "description": "unpadded"},
    "mamba_page_size_padded": {**_MAYBE_INTEGER, "description": "null when none is recorded"},
    "padding_percent": {"type": ["number", "null"]},
    "kernel_block_size": {**_MAYBE_INTEGER, "description": "tokens; null without a common size"},
    "kernel_blocks_per_block": _MAYBE_INTEGER,
    "mamba_state_shapes": {
        "type": ["array", "null"],
        "items": {"type": "array", "items": _INTEGER},
    },
    "mamba_state_dtypes": {"type": ["array", "null"], "items": _STRING},
    "supported_kernel_block_sizes": {
        "type": "array",
        "items": {"type": ["integer", "string"]},
        "description": 'exact sizes, or "MultipleOf(n)"',
    },
    "groups": {"type": ["array", "null"], "items": {"$ref": "#/$defs/group"}},
    "tensors": {
        "type": ["array", "null"],
        "items": {"$ref": "#/$defs/tensor"},
        "description": "null while kv_cache_memory_bytes is not given",
    },
    "num_blocks": {**_MAYBE_INTEGER, "description": "the null block included"},
    "blocks_per_request": {**_MAYBE_INTEGER, "description": "of max_model_len tokens"},
    "max_concurrency": {"type": ["number", "null"]},
    "scheduler_block_size": {**_MAYBE_INTEGER, "description": "tokens"},
    "hash_block_size": {**_MAYBE_INTEGER, "description": "tokens"},
    "cache_layout": {**_MAYBE_STRING, "description": "order of the one allocation, from 0.33 on"},
    "placements": {
        "type": ["array", "null"],
        "items": {"$ref": "#/$defs/placement"},
        "description": "in it, block b of layer l starts at "
        "offset + l * layer_stride + b * block_stride",
    },
    "log_lines": {"type": "array", "items": _STRING},
    "problems": {"type": "array", "items": {"$ref": "#/$defs/problem"}},
    "trace": {"type": "array", "items": {"$ref": "#/$defs/step"}},
}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


def published_schema() -> dict[str, Any]:
    """Return one document with `scenario`, `plan` and `error` under `$defs`."""
    error = {"code": _STRING, "message": _STRING, "field": _MAYBE_STRING}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hybrid KV Workbench: scenarios and plans, one JSON object per line",
        "$defs": {
            "scenario": scenario_schema(),
            "plan": _closed(_PLAN),
            "step": _closed(_STEP),
            "group": _closed(_GROUP),
            "tensor": _closed(_TENSOR),
            "placement": _closed(_PLACEMENT),
            "problem": _closed(_PROBLEM),
            "error": _closed({"error": _closed(error)}),
        },
        "anyOf": [{"$ref": "#/$defs/plan"}, {"$ref": "#/$defs/error"}],
    }

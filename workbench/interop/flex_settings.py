"""The best flex-attention settings of a device, as a file that records their origin."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SCHEMA_VERSION = 1
ATTENTION_CONFIG = (
    ("flex_attn_block_m", "block_m"),
    ("flex_attn_block_n", "block_n"),
    ("flex_attn_q_block_size", "q_block_size"),
    ("flex_attn_kv_block_size", "kv_block_size"),
)
"""vLLM's attention-config key -> our field."""
PRINTED = {"block_m": "BLOCK_M", "block_n": "BLOCK_N"}
"""Our field -> its name in the file, where it is a parameter of the kernel."""


@dataclass(frozen=True, slots=True)
class FlexDevice:
    """Winners of one device and one kind of attention layer."""

    layer: Mapping[str, Any]
    """head_size in elements, gqa (query heads per KV head), page_tokens of a block, dtype."""
    provenance: Mapping[str, str]
    """The conditions under which the winners are valid: device_name, driver, torch, triton,
    kernel_hash, measured_at, store."""
    best: Sequence[Mapping[str, Any]]
    """One winner per batch, for queries of up to q_len and contexts of up to kv_len tokens: tile,
    mask blocks, num_warps, num_stages; median_us of n runs, measured with correctness checked in
    the same call; bitwise: whether one request alone and in a batch gave the same bits."""
    one_for_all: bool = False
    """Every winner is the same configuration, chosen so that bits do not depend on the batch."""

    @property
    def file_name(self) -> str:
        """Return a name like those of vLLM's tuned configurations, with all dependencies in it."""
        device, dtype = (
            re.sub(r"\W+", "_", text).strip("_")
            for text in (self.provenance["device_name"], self.layer["dtype"])
        )
        layer = "head={head_size},gqa={gqa},page={page_tokens}".format(**self.layer)
        bitwise = ",bitwise" if self.one_for_all else ""
        return f"flex,{layer},dtype={dtype},device_name={device}{bitwise}.json"

    def to_json(self) -> str:
        """Return schema version, provenance, and per winner the flags for the kernel and vLLM."""
        rows = [
            {
                **{PRINTED.get(name, name): value for name, value in one.items()},
                "attention_config": {flag: one[name] for flag, name in ATTENTION_CONFIG},
            }
            for one in sorted(self.best, key=lambda one: (one["q_len"], one["kv_len"]))
        ]
        document = {
            "schema_version": SCHEMA_VERSION,
            "layer": self.layer,
            "one_for_all": self.one_for_all,
            "provenance": self.provenance,
            "best": rows,
        }
        return json.dumps(document, indent=2) + "\n"

"""The best flex-attention settings of a device, as a file that records their origin."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

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
class FlexBest:
    """One winner: for queries of up to `q_len` and contexts of up to `kv_len` tokens."""

    q_len: int
    kv_len: int
    block_m: int
    block_n: int
    q_block_size: int
    kv_block_size: int
    num_warps: int
    num_stages: int
    median_us: float
    """Median of `n` runs, measured with correctness checked in the same call."""
    n: int
    bitwise: bool
    """Whether one request alone and in a batch gave the same bits."""


@dataclass(frozen=True, slots=True)
class FlexProvenance:
    """The conditions under which the winners are valid."""

    device_name: str
    driver: str
    torch: str
    triton: str
    kernel_hash: str
    measured_at: str
    store: str = ""


@dataclass(frozen=True, slots=True)
class FlexDevice:
    """Winners of one device and one kind of attention layer."""

    head_size: int
    """In elements."""
    gqa: int
    """Query heads per KV head."""
    page_tokens: int
    """Tokens of a manager block."""
    dtype: str
    provenance: FlexProvenance
    best: tuple[FlexBest, ...]
    one_for_all: bool = False
    """Every winner is the same configuration, chosen so that bits do not depend on the batch."""

    @property
    def file_name(self) -> str:
        """Return a name like those of vLLM's tuned configurations, with all dependencies in it."""
        device = re.sub(r"\W+", "_", self.provenance.device_name).strip("_")
        return (
            f"flex,head={self.head_size},gqa={self.gqa},page={self.page_tokens},"
            f"dtype={self.dtype},device_name={device}{',bitwise' if self.one_for_all else ''}.json"
        )

    def to_json(self) -> str:
        """Return schema version, provenance, and per winner the flags for the kernel and vLLM."""
        rows = [
            {
                **{PRINTED.get(name, name): value for name, value in asdict(one).items()},
                "attention_config": {flag: getattr(one, name) for flag, name in ATTENTION_CONFIG},
            }
            for one in sorted(self.best, key=lambda one: (one.q_len, one.kv_len))
        ]
        layer = {name: getattr(self, name) for name in ("head_size", "gqa", "page_tokens", "dtype")}
        document = {
            "schema_version": SCHEMA_VERSION,
            "layer": layer,
            "one_for_all": self.one_for_all,
            "provenance": asdict(self.provenance),
            "best": rows,
        }
        return json.dumps(document, indent=2) + "\n"

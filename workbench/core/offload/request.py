"""The request to the offload connector."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OffloadRequest:
    """What a person types for the offload connector, and what no scenario has.

    Errors: ValueError for sizes below 1 (0.23 takes them and fails later, or never).
    """

    block_size: int | None = None
    """Tokens of an offloaded block (`block_size` in the connector's extra config)."""
    cpu_bytes_to_use: int | None = None
    """Host memory, over all ranks."""
    world_size: int | None = None
    """Number of ranks, None for the scenario's tensor parallelism."""
    decode_context_parallel: int = 1
    prefill_context_parallel: int = 1
    """vLLM's option, like `decode_context_parallel`."""
    hash_block_size: int | None = None
    """vLLM's option (`prefix_match_unit` since 0.33)."""
    blocks_per_chunk: int | None = None
    """GPU blocks in an offloaded one, an option of the extra config since 0.33, which may be set
    explicitly instead of block_size."""

    def __post_init__(self) -> None:
        for name in (
            "block_size",
            "world_size",
            "decode_context_parallel",
            "prefill_context_parallel",
            "hash_block_size",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1; got {value}. Nearest valid value: 1.")
        if self.cpu_bytes_to_use is not None and self.cpu_bytes_to_use < 0:
            raise ValueError(
                f"cpu_bytes_to_use must not be negative; got {self.cpu_bytes_to_use}. Nearest "
                "valid value: 0."
            )

    @property
    def context_parallel(self) -> int:
        """Return the ranks over which the tokens of one block are spread."""
        return self.decode_context_parallel * self.prefill_context_parallel

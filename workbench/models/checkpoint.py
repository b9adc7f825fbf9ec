"""The files next to a config.json: what the checkpoint holds, and ModelOpt's quantization.

Nothing here is downloaded: a repository that was downloaded as a whole has these files.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from workbench.access.files import FileError, FileUse, opened, read_bytes
from workbench.access.json_text import parse_json
from workbench.core.arithmetic import MIB

MAX_BYTES = 64 * MIB
"""Of an index, or of the header of one file; DeepSeek-V3's index has 8.9 MB."""
MAX_ENTRIES = 1_000_000
"""Of the same: tensors; Kimi K2's index has 140,000."""
MAX_CHECKPOINT_BYTES = 2**44
INDEX_NAME, SINGLE_NAME = "model.safetensors.index.json", "model.safetensors"
QUANTIZATION_NAME = "hf_quant_config.json"
INDEX = FileUse(INDEX_NAME, MAX_BYTES, "model")
SINGLE = FileUse(SINGLE_NAME, MAX_CHECKPOINT_BYTES, "model")
QUANTIZATION = FileUse(QUANTIZATION_NAME, 4 * MIB, "model")
VOCABULARIES = ("embed_tokens", "lm_head", "embeddings.word_embeddings", "tok_embeddings", "wte")
UNREADABLE = (FileError, ValueError, struct.error)
"""A file that is not readable is as good as none: config.json has the answers."""


class ConfigFile(dict[str, Any]):
    """The object of a config.json that was read from a folder."""

    folder: Path | None = None


class Checkpoint(NamedTuple):
    """What a checkpoint holds, as its index or its only file says."""

    total_bytes: int
    """Of all tensors."""
    has_vocabulary: bool
    """Whether any of them is an embedding or a head."""


def with_quantization(config: dict[str, Any], folder: Path) -> ConfigFile:
    """Return the object with ModelOpt's quantization, as `get_config` reads it.

    It is that of hf_quant_config.json, where config.json names none.
    """
    found = ConfigFile(config)
    found.folder = folder
    path = folder / QUANTIZATION_NAME
    if found.get("quantization_config") is None and path.exists():
        try:
            own = _parsed(read_bytes(path, QUANTIZATION))
        except UNREADABLE:
            return found
        if isinstance(own, dict):
            found["quantization_config"] = own
    return found


def folder_of(config: Mapping[str, Any]) -> Path | None:
    """Return the folder that a config.json was read from; None for an object of other origin."""
    return config.folder if isinstance(config, ConfigFile) else None


def read_checkpoint(folder: Path | None) -> Checkpoint | None:
    """Return what the files in `folder` hold; None where there is no index and no single file."""
    if folder is None:
        return None
    try:
        if (folder / INDEX_NAME).exists():
            return _of_index(_parsed(read_bytes(folder / INDEX_NAME, INDEX)))
        if (folder / SINGLE_NAME).exists():
            return _of_header(folder / SINGLE_NAME)
    except UNREADABLE:
        return None
    return None


def _parsed(text: bytes) -> Any:
    return parse_json(text, most_entries=MAX_ENTRIES)


def _of_index(index: Any) -> Checkpoint | None:
    fields = index if isinstance(index, dict) else {}
    of_total, of_map = fields.get("metadata"), fields.get("weight_map")
    total = of_total.get("total_size") if isinstance(of_total, dict) else None
    # Some writers give it as a float.
    if not isinstance(total, int | float) or not 0 < total < MAX_CHECKPOINT_BYTES:
        return None
    return Checkpoint(int(total), _has_vocabulary(of_map if isinstance(of_map, dict) else {}))


def _of_header(path: Path) -> Checkpoint | None:
    """Return what the header of a single file says: its length in 8 bytes, then JSON."""
    with opened(path, SINGLE) as file:
        (length,) = struct.unpack("<Q", file.read(8))
        tensors = _parsed(file.read(length)) if length <= MAX_BYTES else None
    if not isinstance(tensors, dict):
        return None
    tensors.pop("__metadata__", None)
    total = max(map(_end, tensors.values()), default=0)
    return Checkpoint(total, _has_vocabulary(tensors)) if total else None


def _end(tensor: Any) -> int:
    """Return where the data of a tensor ends; 0 where that is not said, or absurd."""
    offsets = tensor.get("data_offsets") if isinstance(tensor, dict) else None
    end = offsets[-1] if isinstance(offsets, list) and offsets else None
    return end if isinstance(end, int) and 0 < end < MAX_CHECKPOINT_BYTES else 0


def _has_vocabulary(names: Mapping[str, Any]) -> bool:
    return any(word in name for name in names for word in VOCABULARIES)

"""Read an untrusted config.json: small, strict, and always a typed error."""

from collections.abc import Mapping
from itertools import zip_longest
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from workbench.access.files import FileError, FileUse, is_folder, read_bytes
from workbench.access.json_text import TooDeepError, parse_json
from workbench.core.errors import ConfigError, shown
from workbench.models.checkpoint import with_quantization

MAX_BYTES = 4 * 1024 * 1024
"""Largest accepted file; real ones have a few kilobytes, one that lists the quantization of every
expert 2.8 MB (MiniMax-M3-NVFP4)."""

MAX_DEPTH = 32
"""Deepest accepted nesting; real ones have four levels."""

MAX_ENTRIES = 75_000
"""Most values and fields; real ones have hundreds, and that list of experts 67,000."""

NEAR = 40
"""Characters that are shown before a mistake."""

USE = FileUse("config.json", MAX_BYTES, "model")
CONTAINERS = (dict, list, tuple, Mapping)


def parse_config(text: str | bytes, source: str) -> dict[str, Any]:
    """Return the object in `text`, or raise ConfigError naming `source`.

    Refuses more than 4 MiB or 75,000 entries, not UTF-8, not JSON, not an object, duplicate
    keys, nesting deeper than 32. NaN and Infinity pass: published files have them
    ("time_step_limit": [0.0, Infinity]), and a field that is read is checked when it is read.
    """
    if len(text) > MAX_BYTES:
        raise _too_large(source, f"{MAX_BYTES} bytes")
    try:
        decoded = (text.decode("utf-8") if isinstance(text, bytes) else text).removeprefix("\ufeff")
        # Before they become objects: a comma precedes every entry but the first of its container.
        if decoded.count(",") > MAX_ENTRIES:
            raise _too_large(source, f"{MAX_ENTRIES} entries")
        value = parse_json(decoded, most_depth=MAX_DEPTH, pairs=_unique_keys)
    except UnicodeDecodeError as error:
        raise _refused("not_utf8", f"{source} is not UTF-8: {error}.") from None
    except TooDeepError:
        raise _refused("too_deep", f"{source} is nested too deeply.") from None
    except ConfigError:
        raise
    except JSONDecodeError as error:
        before = error.doc[: error.pos].split("\n")[-1][-NEAR:]
        near = f" The text before it: {shown(before)}." if before.strip() else ""
        raise _refused("not_json", f"{source} is not JSON: {error}.{near}") from None
    except ValueError as error:
        raise _refused("not_json", f"{source} is not JSON: {error}.") from None
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise _refused("not_object", f"{source} holds a {kind}. Expected an object.")
    check_depth(value, source)
    return value


def read_config(path: Path) -> dict[str, Any]:
    """Return the object in the file at `path`; ConfigError if it cannot be read or parsed.

    A config.json keeps its folder, and takes over the quantization that a file there describes.
    """
    if is_folder(path):
        path = path / "config.json"
    try:
        content = read_bytes(path, USE)
    except FileError as error:
        code = error.code.replace("file_", "config_")
        raise ConfigError(code, error.message, field="model") from None
    config = parse_config(content, path.name)
    return with_quantization(config, path.parent) if path.name == USE.title else config


def check_depth(value: object, source: str) -> None:
    """Refuse containers nested deeper than MAX_DEPTH or with more than MAX_ENTRIES, and cycles."""
    level = {id(value): value} if isinstance(value, CONTAINERS) else {}
    entries = 0
    for _ in range(MAX_DEPTH):
        entries += sum(map(len, level.values()))
        if entries > MAX_ENTRIES:
            raise _too_large(source, f"{MAX_ENTRIES} entries")
        # By identity: an object that contains itself twice must not double with every level.
        level = {
            id(child): child
            for item in level.values()
            for child in (item.values() if isinstance(item, Mapping) else item)
            if isinstance(child, CONTAINERS)
        }
        if not level:
            return
    raise _refused("too_deep", f"{source} is nested too deeply.")


def plain_copy(value: Any, copied: dict[int, Any] | None = None) -> Any:
    """Return objects and lists anew, which no caller can change; `check_depth` has passed them."""
    if not isinstance(value, CONTAINERS):
        return value
    copied = {} if copied is None else copied
    if id(value) not in copied:  # An object that is there twice must not double with every level.
        if isinstance(value, Mapping):
            made: Any = {key: plain_copy(one, copied) for key, one in value.items()}
        else:
            made = [plain_copy(one, copied) for one in value]
        copied[id(value)] = made
    return copied[id(value)]


def _too_large(source: str, limit: str) -> ConfigError:
    return _refused("too_large", f"{source} has more than {limit}, the limit for a config.json.")


def _refused(reason: str, message: str, field: str = "") -> ConfigError:
    return ConfigError(f"config_{reason}", message, field=field)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        # `result` has every key once, in order: the first that is not next is there again.
        twice = next(key for (key, _), own in zip_longest(pairs, result) if key != own)
        raise _refused("duplicate_key", f"The key {shown(twice)} appears twice.", f"/{twice[:80]}")
    return result

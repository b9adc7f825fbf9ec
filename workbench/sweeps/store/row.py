"""One measured point: its key, its result, and its provenance."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, make_dataclass
from functools import cache
from typing import Annotated, Any, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter

from workbench.access.json_text import MAX_DEPTH, parse_json
from workbench.core.errors import Unusable, shown

OK = "ok"
STATUSES = (OK, "illegal", "unfit", "compile_error", "oom", "timeout", "wrong", "crashed", "failed")
"""The outcome of a point; all but "ok" have the reason in `message`."""
INTERPRETER = "interpreter"
Seconds = Annotated[float, Field(ge=0, lt=2**36)]
"""2**36: the year 4147."""
Time = Annotated[Seconds, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]


class StoreError(Unusable):
    """A results file cannot be used as requested; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Key:
    """Which measurement: a configuration on a device with one version of the kernel, one round.

    config: the configuration as canonical JSON; `Key.of` builds it from a mapping.
    """

    config: str
    device: str
    kernel_hash: str
    round: int = 0

    @classmethod
    def of(cls, config: Mapping[str, Any], device: str, kernel_hash: str, number: int = 0) -> Key:
        """Return the key of a configuration of names and JSON values.

        ValueError for NaN or infinity.
        """
        return cls(canonical(config), device, kernel_hash, number)

    @property
    def config_values(self) -> dict[str, Any]:
        """Return the configuration by name."""
        values: dict[str, Any] = json.loads(self.config)
        return values

    @property
    def columns(self) -> tuple[str, str, str, int]:
        """Return the file's key: hash of the configuration, device, kernel hash, round."""
        digest = hashlib.sha256(self.config.encode()).hexdigest()[:32]
        return digest, self.device, self.kernel_hash, self.round

    @property
    def identity(self) -> bytes:
        """Return the columns as one value."""
        config_hash, device, kernel_hash, number = self.columns
        return f"{config_hash}\0{device}\0{kernel_hash}\0{number}".encode()


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one key. Times in seconds; None if nothing was measured.

    Errors: ValueError for an unknown status, or for a time that comes from Triton's interpreter.
    """

    key: Key
    status: str = OK
    message: str = ""
    n: Count | None = None
    median_s: Time | None = None
    spread_s: Seconds | None = None
    """Distance of the quartiles."""
    correct: bool | None = None
    bitwise: bool | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    """The machine's measured limits in the same run."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Other numbers by name."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Device, driver, versions, source hash, clocks, mode."""
    measured_at: Seconds = 0.0

    def __post_init__(self) -> None:
        """Refuse rows that a reader could not trust."""
        if self.status not in STATUSES:
            raise ValueError(
                f"Invalid status {shown(self.status)}. Expected one of {', '.join(STATUSES)}."
            )
        timed = self.median_s is not None or self.spread_s is not None
        if timed and self.provenance.get("mode") == INTERPRETER:
            raise ValueError("Triton's interpreter has no times: omit median_s and spread_s.")
        if timed and self.correct is False:
            raise ValueError("A wrong result has no time: omit median_s and spread_s.")

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able values by name; the configuration as an object."""
        values = {name: getattr(self, name) for name in _PLAIN}
        return {**asdict(self.key), "config": self.key.config_values, **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Row:
        """Build the row from what `to_dict` returned. Errors: as `from_json`, and TypeError."""
        return cls.from_json(json.dumps(values).encode())

    @classmethod
    def from_json(cls, text: bytes) -> Row:
        """Build the row from what `to_dict` returned as JSON, with every type checked.

        Errors: ValueError, also for what UTF-8 or JSON cannot say: half of a surrogate pair, NaN,
        infinity.
        """
        if text.count(b"[") + text.count(b"{") > MAX_DEPTH:
            parse_json(text)  # refuses what nests too deep: fewer brackets cannot
        found = vars(_checker().validate_json(text))
        key = Key.of(*[found.pop(name) for name in _KEY])
        _encode([found["values"], found["provenance"]])  # no NaN: their numbers have no type
        return cls(key, **found)


_KEY = tuple(one.name for one in fields(Key))
_PLAIN = tuple(one.name for one in fields(Row) if one.name != "key")


@cache
def _checker() -> TypeAdapter[Any]:
    """Return what checks the JSON of a row: the values of its key are among the others."""
    kinds = get_type_hints(Key) | get_type_hints(Row, include_extras=True)
    kinds["config"] = dict[str, Any]
    strict = ConfigDict(strict=True, allow_inf_nan=False)
    names = [(name, kinds[name]) for name in (*_KEY, *_PLAIN)]
    return TypeAdapter(make_dataclass("_Body", names, namespace={"__pydantic_config__": strict}))


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def canonical(values: Mapping[str, Any]) -> str:
    """Return the canonical JSON text of these values. ValueError for NaN or infinity."""
    return _encode(values)


def packed(row: Row) -> tuple[Any, ...]:
    """Return a row's columns in the file: its key, its JSON, and the checksum of both."""
    body = canonical(row.to_dict())
    return (*row.key.columns, body, checksum(row.key.identity, body.encode()).decode())


def checksum(identity: bytes, body: bytes) -> bytes:
    """Return sixteen hex digits over a row's identity and its JSON."""
    return hashlib.sha256(b"%b\0%b" % (identity, body)).hexdigest()[:16].encode()

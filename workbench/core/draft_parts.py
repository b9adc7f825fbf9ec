"""What a config.json says of drafting: layers that a checkpoint brings, and layers of a drafter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.core.model import Layer


@dataclass(frozen=True, slots=True)
class Mtp:
    """The layers for multi-token prediction that a checkpoint brings: the drafter of method mtp."""

    model_type: str
    """model_type of the whole config.json or its architecture: what shows vLLM that there are such
    layers."""
    layers: tuple[Layer, ...]
    """Those that keep a cache, numbered after the model's own; none where config.json says that
    there are none."""
    first_index: int
    """Number in vLLM's name of the first of these layers."""
    predictions: int | None
    """How many of them the file declares, None where it does not say; more draft tokens must be a
    multiple of it."""
    is_nested: bool = False
    """The declaration is in a part of the file, not at its top."""
    max_predictions: int | None = None
    """The most that vLLM's drafter of this family runs, None without a limit."""
    is_listed: bool = True
    """False where vLLM looks up their kinds in a list that has too few entries."""
    chained: int = 1
    """How many of them draft one after the other, each a token further
    (`num_nextn_predict_layers`)."""
    targets: frozenset[str] = frozenset()
    """Model types of targets whose configuration the drafter's class reads instead of its own: a
    foreign checkpoint only says how many predictions draft. Empty for a class that reads its own.
    """
    is_cut: bool = False
    """vLLM builds no more predictions than there are draft tokens."""
    reads_target: bool = False
    """Its layers read the caches of the target's and keep none."""


@dataclass(frozen=True, slots=True)
class Head:
    """What the config.json of a drafter says of layers that only a drafter has."""

    kinds: tuple[str, ...]
    """The kind of every layer as listed; full attention where nothing is listed."""
    lists_kinds: bool
    """The file lists them."""
    window_tokens: int | None
    """Of its sliding layers, None without any."""
    is_causal: bool | None
    """Set for all layers, None where it follows from their kinds."""
    has_sinks: bool
    reads_hidden_states: bool
    """An EAGLE-3 head reads hidden states of several layers (`use_aux_hidden_state`)."""
    method: str | None
    """The method that the file itself names."""
    given: frozenset[str]
    """Which of the fields that some version stops without the file has."""
    stretches: bool
    """Its positions may go on to the end of the target's requests (0.33)."""
    place: str = ""
    """The path or hub id of the checkpoint, whose words may say the method; empty for an object."""

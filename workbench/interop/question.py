"""What a question is about: the topic, what it says of the scenario, and what is in question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.interop.description import Description
from workbench.interop.glossary import Term
from workbench.interop.topics import Topic


@dataclass(frozen=True)
class Question:
    """What a question is about."""

    topic: Topic
    said: Description = field(default_factory=Description)
    others: tuple[Description, ...] = ()
    """What is said instead, where several values of one field are: all are compared."""
    decode: Mapping[str, Any] = field(default_factory=dict)
    """What the engine that decodes has instead, where another one prefills."""
    choices: tuple[str, ...] = ()
    """Fields whose changes are weighed against each other."""
    weighed: Mapping[str, Any] = field(default_factory=dict)
    """Their values that the question names, to be compared with the present ones."""
    block_tokens: int | None = None
    """The block size in question."""
    names_block: bool = False
    """Whether the number is said to be of a block."""
    padding: float | None = None
    """The percentage of padding that is said with it."""
    is_wanted: bool = False
    """Whether that block size is to be set, rather than explained."""
    term: Term | None = None
    """The word whose meaning is in question."""
    backend: str = ""
    """The backend that is named."""
    releases: tuple[str, ...] = ()
    """The versions of vLLM in question: those that it names, else the newest."""
    default_of: str = ""
    """The field or the flag whose default is in question."""
    value: str = ""
    """The value of the plan that is in question, by its published name."""
    special: str = ""
    """The kind of a question that has an answer of its own; empty: the tiles answer it."""
    memory_gb: int | None = None
    """Of a device that is named by its memory alone."""
    sharing: tuple[Description, ...] = ()
    """The other engines of a store, in a question about chunks."""
    chunk_tokens: int | None = None
    """The chunk in question."""
    connector: str = ""
    """The connector that is named, by the name that vLLM has for it."""
    host_bytes: int | None = None
    """Of the host's memory, in a question about offload."""
    goal: str = ""
    """What is to become better: one of `next_steps`, or `block`."""
    step: int | None = None
    """The number of the step that is in question."""
    shared_tokens: int | None = None
    """Tokens that the prompts in question have in common at their beginning."""
    concurrency: float | None = None
    """What vLLM printed as the maximum concurrency, such as 1.9 for "1.9x"."""
    byte: int | None = None
    """The byte of a tensor that is in question."""
    limits: str = ""
    """The field of which the checks of vLLM are in question."""
    is_why: bool = False
    """Whether the reason for a value is in question."""
    unused: tuple[str, ...] = ()
    """Words with a number that say nothing here."""
    views: tuple[str, ...] = ()
    """Explanations of all topics that the words name, the one of `topic` first."""

    @property
    def is_of_machines(self) -> bool:
        """Return whether it is answered with devices, and not for the present ones."""
        return self.special in {"devices", "any device", "needs"} or (
            self.memory_gb is not None and self.special != "models"
        )

    @property
    def title(self) -> str:
        """Return what it is about, where that is not the scenario; else nothing."""
        if self.term is not None:
            return f"The meaning of {self.term.word}."
        if self.special == "models":
            return "Models of the catalog that a machine has room for."
        return "The models that can be chosen by name." if self.topic.is_of_catalog else ""

"""What every benchmark does: find peers, check them, and record what could not be measured."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from workbench.kernels.bench.peers import FAST, PeerKind
from workbench.kernels.bench.ratios import QUICK_ROUNDS, ROUNDS
from workbench.kernels.bench.results import Result, Verdict
from workbench.kernels.bench.vllm_source import in_every_vllm
from workbench.kernels.inspection import InspectionError, inspect_kernels
from workbench.kernels.mode import triton_mode

Found = TypeVar("Found")
AnyResult = TypeVar("AnyResult", bound=Result)
Ran = tuple[list[Any], str]
"""The peers of a kind, one per input, and what is wrong with the first that is."""
NO_REMARKS: Mapping[PeerKind, str] = {}
GateModule = tuple[str, Sequence[str], Mapping[str, str]]
"""Kernels to compile: their module, the targets that have them, and what their rows say as well."""


class Expected(Protocol):
    """The right results of one input."""

    def difference(self, peer: Any) -> str:
        """Describe what is wrong with a peer's current outputs; empty if nothing is."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run."""

    cases: tuple[Any, ...]
    quick: bool
    say: Callable[[str], None]
    """Gets a line whenever something is begun or omitted."""
    save: Callable[[Any], None] = lambda _result: None
    """Gets the result after every case, since a run on a borrowed GPU may be cut off."""
    compile_only: bool = False
    """Only what the compiler makes of the kernels."""
    peers: tuple[str, ...] = ()
    """Only peers whose names contain one of these take part; all, if there are none."""

    def has(self, name: str) -> bool:
        """Return whether a peer takes part. The one that others are compared with always does."""
        return name == FAST or not self.peers or any(part in name for part in self.peers)

    @property
    def rounds(self) -> int:
        """Return the number of A B B A rounds."""
        return QUICK_ROUNDS if self.quick else ROUNDS


class PeerSkipped(RuntimeError):  # noqa: N818 - what happened
    """This peer cannot compute this case, and why."""


class Run(Generic[AnyResult]):
    """One run: its plan, its peers, the fast one first, and the result that it fills."""

    def __init__(self, plan: Plan, result: AnyResult, kinds: Sequence[PeerKind] = ()) -> None:
        self.plan, self.result, self.kinds = plan, result, tuple(kinds)
        self.device = triton_mode().torch_device

    def open(self, line: str) -> None:
        """Print and record what could not be measured."""
        self.plan.say(line)
        self.result.open_questions.append(line)

    def in_every_vllm(self, find: Callable[[str], Found]) -> list[Found]:
        """Return what is found in the folders that VLLM_SRC names; say why others are skipped."""
        return in_every_vllm(find, lambda reason: self.open(f"No vLLM to compare with. {reason}"))

    def tried(
        self, name: str, inputs: Sequence[Any], rights: Sequence[Expected]
    ) -> dict[PeerKind, Ran]:
        """Run every kind of peer that can compute a case."""
        found = {}
        for kind in filter(lambda kind: self.plan.has(kind.name), self.kinds):
            try:
                found[kind] = ran(kind, inputs, rights)
            except PeerSkipped as reason:
                self.open(f"{name}: no {kind.name}: {reason}.")
        return found

    def right_ones(
        self, name: str, found: Mapping[PeerKind, Ran], remarks: Mapping[PeerKind, str] = NO_REMARKS
    ) -> dict[PeerKind, list[Any]]:
        """Return the right peers of a case, and record a verdict on every kind.

        A peer that is wrong, or that fails, is not among them, and so is not timed.
        """
        for kind, (_peers, wrong) in found.items():
            detail = wrong or remarks.get(kind, "")
            self.result.verdicts.append(Verdict(name, kind.name, not wrong, detail))
        return {kind: peers for kind, (peers, wrong) in found.items() if not wrong}

    def gate(
        self, modules: Iterable[GateModule], targets: Sequence[str], names: Sequence[str]
    ) -> None:
        """Record what the compiler makes of the kernels. names: the numbers of a report."""
        self.plan.say("What the compiler makes of the kernels ...")
        chosen = ((m, [name for name in own if name in targets], more) for m, own, more in modules)
        try:
            self.result.gate = [
                {**{name: getattr(report, name) for name in names}, **more}
                for module, own, more in chosen
                for report in (inspect_kernels(module, own) if own else ())
            ]
        except InspectionError as error:
            self.open(f"Compiler figures are open: {str(error)[-300:]}")


def ran(kind: PeerKind, inputs: Sequence[Any], rights: Sequence[Expected]) -> Ran:
    """Make one peer per input, and run each once. Errors: PeerSkipped."""
    peers: list[Any] = []
    try:
        for turn, (given, right) in enumerate(zip(inputs, rights, strict=True)):
            peers.append(kind.make(given))
            peers[-1].run()
            if wrong := right.difference(peers[-1]):
                return peers, f"set {turn}: {wrong}" if len(inputs) > 1 else wrong
    except PeerSkipped:
        raise
    except Exception as error:  # noqa: BLE001 - a peer that fails is a finding about it
        return [], brief(error)
    return peers, ""


def brief(error: Exception) -> str:
    """Return an error's type, and the beginning of its message."""
    return f"{type(error).__name__}: {str(error)[:300]}"


def has_fast(kinds: Iterable[PeerKind]) -> bool:
    """Return whether the peer that others are compared with is there, which comes first."""
    return next((kind.name for kind in kinds), "") == FAST


def chosen(what: str, cases: Mapping[str, Found], names: Sequence[str]) -> tuple[Found, ...]:
    """Return the named cases, or all if no name is given. ValueError for an unknown name."""
    if unknown := [name for name in names if name not in cases]:
        raise ValueError(f"Invalid {what} {unknown[0]!r}. Expected one of: {', '.join(cases)}")
    return tuple(cases[name] for name in names or cases)

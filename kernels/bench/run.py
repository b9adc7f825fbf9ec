"""What every benchmark does: find peers, check them, and record what could not be measured."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from workbench.kernels.bench.peers import FAST, PeerKind
from workbench.kernels.bench.ratios import QUICK_ROUNDS, ROUNDS
from workbench.kernels.bench.results import Result, Verdict
from workbench.kernels.bench.vllm_source import VllmSkipped, named_folders
from workbench.kernels.inspection import InspectionError, inspect_kernels
from workbench.kernels.mode import triton_mode

Found = TypeVar("Found")
AnyResult = TypeVar("AnyResult", bound=Result)


class Expected(Protocol):
    """The right results of one input."""

    def difference(self, peer: Any) -> str:
        """Describe what is wrong with a peer's current outputs; empty if nothing is."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. say gets a line whenever something is begun or omitted.

    save gets the result after every case, since a run on a borrowed GPU may be cut off.
    compile_only: only what the compiler makes of the kernels.
    """

    cases: tuple[Any, ...]
    quick: bool
    say: Callable[[str], None]
    save: Callable[[Any], None] = lambda _result: None
    compile_only: bool = False

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
        found = []
        try:
            folders = named_folders()
        except VllmSkipped as reason:
            self.open(f"No vLLM to compare with. {reason}")
            return []
        for folder in folders:
            try:
                found.append(find(folder))
            except VllmSkipped as reason:
                self.open(f"No vLLM to compare with. {reason}")
        return found

    def checked(
        self, name: str, inputs: Sequence[Any], rights: Sequence[Expected]
    ) -> dict[PeerKind, list[Any]]:
        """Return the right peers of a case, one per input, and record a verdict on every kind.

        A peer that is wrong, or that fails, is not among them, and so is not timed.
        """
        found = {kind: ran(kind, inputs, rights) for kind in self.kinds}
        self.judge(name, {kind: wrong for kind, (_peers, wrong) in found.items()})
        return {kind: peers for kind, (peers, wrong) in found.items() if not wrong}

    def judge(self, name: str, wrong: Mapping[PeerKind, str]) -> None:
        """Record what is wrong with each kind of peer in a case, or that nothing is."""
        found = [Verdict(name, kind.name, not text, text) for kind, text in wrong.items()]
        self.result.verdicts += found

    def gate(self, rows: Callable[[], list[Any]]) -> None:
        """Record what the compiler makes of the kernels."""
        self.plan.say("What the compiler makes of the kernels ...")
        try:
            self.result.gate = rows()
        except InspectionError as error:
            self.open(f"Compiler figures are open: {str(error)[-300:]}")


def ran(kind: PeerKind, inputs: Sequence[Any], rights: Sequence[Expected]) -> tuple[list[Any], str]:
    """Return one peer per input, each run once, and what is wrong with the first that is."""
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


def gate_rows(row: type[Found], module: str, targets: Sequence[str], **more: object) -> list[Found]:
    """Compile a module's kernels for every target; the rows' fields are those of a report.

    InspectionError: the compiler's own words.
    """
    names = [entry.name for entry in dataclasses.fields(row) if entry.name not in more]  # type: ignore[arg-type]
    reports = inspect_kernels(module, targets) if targets else ()
    return [row(**{name: getattr(report, name) for name in names}, **more) for report in reports]

"""The inner loops of a compiled kernel, read from the device's own instructions (SASS).

Registers and spills do not show a loop that waits for its own copies; its instructions do.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_LABEL = re.compile(r"^(\.L_x_\d+):")
# /*1bb0*/  @!P2 HGMMA.64x64x16.F32 R88, gdesc[UR8], R88 ;   a predicate, a name, operands
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P[T\d]+\s+)?([A-Z][\w.]*)([^;]*);")
_BRANCH = re.compile(r"`\((\.L_x_\d+)\)")
_SHAPE = re.compile(r"\.(\d+)x(\d+)x(\d+)")
_MATRIX = ("HGMMA", "HMMA", "QGMMA", "UTCHMMA", "UTCQMMA")
_LOCAL = ("LDL", "STL")
# HMMA.16816: rows, columns and depth in one number
_SHORT_SHAPE = re.compile(r"^HMMA\.(16)(8)(8|16)\b")
NOTHING = ("NOP",)
DESCRIPTOR_COPY = "UTMALDG"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its name with modifiers, and its operands as text."""

    name: str
    operands: str

    @property
    def base(self) -> str:
        """Return its name without modifiers."""
        return self.name.partition(".")[0]

    def starts(self, *names: str) -> bool:
        """Return whether it is one of these instructions, with any modifiers."""
        return self.base in names


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One inner loop with matrix instructions."""

    instructions: int
    """Of one warp in one iteration that jumps over nothing, without NOP."""
    shortest: int = 0
    """Of an iteration that takes every branch over some of them: a tile without a mask, whose
    scores raise no reference of the softmax."""
    arithmetic: dict[str, int] = field(default_factory=dict)
    """Instruction on floating-point numbers -> how many, in an iteration that jumps over none."""
    matrix: dict[str, int] = field(default_factory=dict)
    """Matrix instruction with its shape, "HGMMA.64x128x16" -> how many."""
    copies: dict[str, int] = field(default_factory=dict)
    """Instruction that copies global to shared memory, "LDGSTS.128" or "UTMALDG" -> how many."""
    groups: int = 0
    """Groups of copies (cp.async), or copies by TMA, that one iteration starts."""
    flying: int = 0
    """The fewest of them on their way while a matrix instruction works."""
    local_accesses: int = 0
    """Loads from and stores to local memory: spilled registers."""
    loads: int = 0
    """Loads of global memory into registers."""

    @property
    def by_descriptors(self) -> bool:
        """Return whether descriptors (TMA) copy its tiles."""
        return DESCRIPTOR_COPY in self.copies

    @property
    def tiles_in_flight(self) -> float:
        """Return the tiles of keys and values on their way while one is multiplied."""
        return self.flying / self.groups if self.groups else 0.0


def inner_loops(sass: str) -> tuple[Loop, ...]:
    """Return the loops with matrix instructions, and no loop within, in the order of the code."""
    lines, labels = _parsed(sass)
    spans = sorted(_spans(lines, labels))
    found, done = [], 0
    for begin, end in spans:
        body = lines[begin : end + 1]
        # an outer loop has the instructions of its inner ones too
        nested = any((b, e) != (begin, end) and begin <= b and e <= end for b, e in spans)
        if not nested and any(line.starts(*_MATRIX) for line in body):
            # label -> number within the loop
            own = {name: place - begin for name, place in labels.items() if begin < place <= end}
            found.append(_loop(body, own, lines[done:begin]))
            done = end
    return tuple(found)


def _parsed(sass: str) -> tuple[list[Instruction], dict[str, int]]:
    """Return the instructions in order, and label -> number of the next instruction."""
    lines: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in sass.splitlines():
        if label := _LABEL.match(line):
            labels[label.group(1)] = len(lines)
        elif instruction := _INSTRUCTION.match(line):
            lines.append(Instruction(*instruction.groups()))
    return lines, labels


def _spans(lines: Sequence[Instruction], labels: dict[str, int]) -> Iterator[tuple[int, int]]:
    """Yield first and last instruction of every backward branch's loop."""
    for i, line in enumerate(lines):
        # BRA.U.ANY repeats one instruction until the address of every thread has had its turn
        is_loop = line.starts("BRA") and not line.name.endswith(".ANY")
        if is_loop and (target := _BRANCH.search(line.operands)):
            begin = labels.get(target.group(1), i)
            if begin < i:
                yield begin, i


def _loop(
    body: Sequence[Instruction], labels: Mapping[str, int], before: Sequence[Instruction]
) -> Loop:
    """Read a loop. before: what comes between the last loop and this one."""
    matrix: Counter[str] = Counter()
    copies: Counter[str] = Counter()
    for line in body:
        if line.starts(*_MATRIX):
            matrix[_with_shape(line)] += 1
        elif line.starts("LDGSTS"):
            copies["LDGSTS.128" if ".128" in line.name else line.name] += 1
        elif line.starts(DESCRIPTOR_COPY):
            copies[DESCRIPTOR_COPY] += 1
    shortest = [line for line in _without_skipped(body, labels) if not line.starts(*NOTHING)]
    arithmetic = Counter(line.base for line in body if _is_arithmetic(line))
    return Loop(
        instructions=sum(not line.starts(*NOTHING) for line in body),
        shortest=len(shortest),
        arithmetic=dict(sorted(arithmetic.items())),
        matrix=dict(matrix),
        copies=dict(copies),
        groups=copies[DESCRIPTOR_COPY] or sum(line.starts("LDGDEPBAR") for line in body),
        flying=_flying_by_tma(body, before) if copies[DESCRIPTOR_COPY] else _flying(body),
        local_accesses=sum(line.starts(*_LOCAL) for line in body),
        loads=sum(line.starts("LDG") for line in body),
    )


def _without_skipped(
    body: Sequence[Instruction], labels: Mapping[str, int]
) -> Iterator[Instruction]:
    """Yield the instructions of an iteration that takes every branch ahead within the loop."""
    resume = 0
    for i, line in enumerate(body):
        if i < resume:
            continue
        yield line
        if line.starts("BRA") and (target := _BRANCH.search(line.operands)):
            # a label outside of the loop is unknown here: such a branch skips nothing
            resume = labels.get(target.group(1), i)


def _is_arithmetic(line: Instruction) -> bool:
    return line.starts("MUFU", *_MATRIX) or line.name.startswith(("FADD", "FMUL", "FFMA", "FMNMX"))


def _with_shape(line: Instruction) -> str:
    if shape := _SHAPE.search(line.name):
        return f"{line.base}.{shape.group(0)[1:]}"
    if short := _SHORT_SHAPE.match(line.name):
        return f"{line.base}.{'x'.join(short.groups())}"
    return line.base


def _flying_by_tma(body: Sequence[Instruction], before: Sequence[Instruction]) -> int:
    """Return the fewest copies by TMA on their way at a matrix instruction.

    Each turn waits for the copies of one turn, of those that were begun before the loop first.
    """
    first = next(i for i, line in enumerate(body) if line.starts(*_MATRIX))
    own = sum(line.starts(DESCRIPTOR_COPY) for line in body)
    early = sum(line.starts(DESCRIPTOR_COPY) for line in body[:first])
    # a loop that copies for itself waits for all that it has begun
    return max(sum(line.starts(DESCRIPTOR_COPY) for line in before) - own + early, 0)


def _flying(body: Sequence[Instruction]) -> int:
    """Return the fewest groups of copies on their way at a matrix instruction.

    A group begins at LDGDEPBAR; `DEPBAR.LE SB0, n` waits until n are left.
    """
    left = sum(line.starts("LDGDEPBAR") for line in body) * len(body)
    fewest = left
    # the second round is the steady state
    for turn in range(2):
        for line in body:
            if line.starts("LDGDEPBAR"):
                left += 1
            elif line.starts("DEPBAR") and "SB0" in line.operands:
                left = min(left, int(line.operands.rpartition(",")[2].strip(" )"), 16))
            elif turn and line.starts(*_MATRIX):
                fewest = min(fewest, left)
    return fewest

"""Loops of a device's instructions, written by hand, are read as they are."""

import dataclasses

from workbench.kernels.inspection.loops import Loop, inner_loops


def sass(*lines):
    """Text as of nvdisasm: an indented line for each instruction, labels at the margin."""
    numbered = enumerate(lines)
    return "\n".join(
        line if line.startswith(".") else f"        /*{i * 16:04x}*/  {line} ;"
        for i, line in numbered
    )


def test_an_iteration_is_counted_by_kinds_of_instructions():
    [loop] = inner_loops(
        sass(
            "UTMALDG.4D [UR4], [UR6]",  # before the loop, which copies by LDGSTS
            ".L_x_1:",
            "@!P2 BRA `(.L_x_7)",  # out of the loop
            "LDG.E R1, [R2.64]",
            "LDGSTS.E.64 [R3], [R4.64]",
            "LDGSTS.E.BYPASS.LTC128B.128 [R3], [R4.64]",
            "LDGSTS.E.128 [R3], [R4.64]",
            "LDGDEPBAR",
            "DEPBAR.LE SB0, 0x1",
            "LDL R5, [R1]",
            "STL [R1], R5",
            "HMMA.16816.F32 R8, R4, R6, R8",
            "HGMMA.64x128x16.F32 R24, gdesc[UR8], R24",
            "HGMMA.64x128x16.F32 R24, gdesc[UR8], R24",
            "UTCHMMA gdesc[UR8], tmem[UR4]",
            "NOP",
            "MUFU.EX2 R1, R2",
            "FMNMX3.FTZ R1, R2, R3, R4",
            "@P0 BRA `(.L_x_2)",  # over three, one of which is nothing
            "FADD.FTZ R1, R2, R3",
            "NOP",
            "FADD.FTZ R1, R2, R3",
            ".L_x_2:",
            "IADD3 R1, R2, R3, RZ",
            "@!P1 BRA `(.L_x_1)",
            "STG.E [R2.64], R1",
            ".L_x_7:",
            "EXIT",
        )
    )
    assert loop == Loop(
        instructions=20,
        shortest=18,
        arithmetic={"FADD": 2, "FMNMX3": 1, "HGMMA": 2, "HMMA": 1, "MUFU": 1, "UTCHMMA": 1},
        matrix={"HMMA.16x8x16": 1, "HGMMA.64x128x16": 2, "UTCHMMA": 1},
        copies={"LDGSTS.E.64": 1, "LDGSTS.128": 2},
        groups=1,
        flying=1,
        local_accesses=2,
        loads=1,
    )
    assert not loop.by_descriptors


MATRIX = "HGMMA.64x64x16.F32 R24, gdesc[UR8], R24"
COPY = "UTMALDG.4D [UR4], [UR6]"


def test_inner_loops_alone_are_read():
    loops = inner_loops(
        sass(
            MATRIX,
            "@P0 BRA `(.L_x_99)",  # to code that is not here
            ".L_x_1:",
            "IADD3 R1, R2, R3, RZ",
            "@P0 BRA `(.L_x_1)",  # without a matrix instruction
            ".L_x_2:",
            MATRIX,
            "FADD R1, R2, R3",
            "@P0 BRA `(.L_x_2)",
            "FMUL R1, R2, R3",
            "@P1 BRA `(.L_x_2)",  # around the one before, from the same beginning
            ".L_x_3:",
            "FMUL R1, R2, R3",
            ".L_x_4:",
            MATRIX,
            ".L_x_5:",
            "@P2 BRA `(.L_x_5)",  # of itself
            "@P0 BRA `(.L_x_4)",
            "@P1 BRA `(.L_x_3)",  # around the one before
        )
    )
    assert [loop.instructions for loop in loops] == [3, 3]
    assert [loop.arithmetic for loop in loops] == [{"FADD": 1, "HGMMA": 1}, {"HGMMA": 1}]


def test_groups_of_copies_fly_until_they_are_waited_for():
    def flying(*body):
        [loop] = inner_loops(sass(".L_x_1:", *body, "@P0 BRA `(.L_x_1)"))
        return loop.groups, loop.flying, loop.tiles_in_flight

    wait = "DEPBAR.LE SB0, {}".format
    assert flying("LDGDEPBAR", MATRIX, wait("0x1"), "NOP") == (1, 2, 2.0)
    assert flying(MATRIX, "LDGDEPBAR", wait("0xa"), *["NOP"] * 20) == (1, 10, 10.0)
    assert flying("LDGDEPBAR", "LDGDEPBAR", wait("0x3"), MATRIX, wait("0x1")) == (2, 3, 1.5)
    # of the matrix instructions the one with the fewest counts; another scoreboard is not waited at
    assert flying("LDGDEPBAR", MATRIX, wait("0x0"), "DEPBAR.LE SB1, 0x0", MATRIX) == (1, 0, 0.0)
    assert flying("LDGDEPBAR", "DEPBAR.LE SB1, 0x0", MATRIX, wait("0x2")) == (1, 3, 3.0)


def test_copies_by_descriptors_fly_until_their_turn():
    def flying(*lines):
        return [(one.groups, one.flying) for one in inner_loops(sass(*lines))]

    def loop(name, *body):
        return f".{name}:", *body, f"@P0 BRA `(.{name})"

    first = loop("L_x_1", COPY, MATRIX, COPY)
    # five are begun, a turn waits for two of them and begins one before it multiplies
    assert flying(*[COPY] * 5, *first) == [(2, 4)]
    # what is begun between two loops is of the second one
    second = loop("L_x_2", MATRIX, COPY)
    assert flying(*[COPY] * 4, *first, *[COPY] * 3, *second) == [(2, 3), (1, 2)]
    # a loop that copies for itself waits for all of it
    assert flying(*loop("L_x_1", MATRIX, COPY, COPY)) == [(2, 0)]


def test_a_loop_of_which_nothing_is_known_has_nothing():
    known = dataclasses.asdict(Loop(instructions=5))
    assert known.pop("instructions") == 5
    assert not any(known.values())
    assert Loop(instructions=5).tiles_in_flight == 0.0
    assert Loop(instructions=5, groups=2, flying=5).tiles_in_flight == 2.5

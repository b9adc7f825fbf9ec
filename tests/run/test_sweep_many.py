"""Numbers that stand for many compute, decide and fail as each of them does alone."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core import arithmetic
from workbench.core.equality import by_key, different, remembered
from workbench.run.sweeps.many import ForkError, Many
from workbench.run.sweeps.trees import Family, cut, leaves

SMALL = st.integers(-(2**20), 2**20)
PAIRS = st.lists(st.tuples(SMALL, SMALL), min_size=2, max_size=9)
OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "/": operator.truediv,
    "&": operator.and_,
    "lcm": arithmetic.lcm,
    "gcd": arithmetic.gcd,
    "cdiv": arithmetic.cdiv,
    "choose": lambda one, two: arithmetic.choose(one < two, one * 2, two),
    "power": lambda one, two: arithmetic.next_power_of_2(abs(one) + 1) + two,
    "share": lambda one, two: math.ceil(one * 0.9) - round(two / 7),
}
QUESTIONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def many(numbers):
    return Many(np.array(numbers))


def alone(function, ones, others):
    """Function over pairs one by one; ZeroDivisionError where any has it."""
    return [function(one, other) for one, other in zip(ones, others, strict=True)]


@pytest.mark.parametrize("name", OPERATIONS)
@given(pairs=PAIRS, number=SMALL)
def test_it_computes_what_each_does(name, pairs, number):
    function = OPERATIONS[name]
    ones, others = zip(*pairs, strict=True)
    for left, right, first, second in (
        (many(ones), many(others), ones, others),
        (many(ones), number, ones, [number] * len(ones)),
        (number, many(others), [number] * len(ones), others),
    ):
        try:
            expected = alone(function, first, second)
        except ZeroDivisionError:
            with pytest.raises((ZeroDivisionError, ForkError)):
                function(left, right)
            continue
        assert function(left, right).array.tolist() == expected


@pytest.mark.parametrize("question", QUESTIONS)
@given(pairs=PAIRS)
def test_it_decides_as_each_does_or_forks(question, pairs):
    ones, others = zip(*pairs, strict=True)
    expected = alone(question, ones, others)
    asked = question(many(ones), many(others))
    if len(set(expected)) == 1:
        assert bool(asked) is expected[0]
        return
    with pytest.raises(ForkError) as fork:
        bool(asked)
    assert fork.value.yes.tolist() == expected


@given(
    numbers=st.lists(st.integers(0, 2**61), min_size=2, max_size=5), factor=st.integers(1, 2**61)
)
def test_numbers_past_64_bits_are_an_error_never_a_wrong_number(numbers, factor):
    for function in (operator.mul, operator.add, operator.truediv, arithmetic.lcm):
        try:
            found = function(many(numbers), factor)
        except OverflowError:
            continue
        assert found.array.tolist() == [function(number, factor) for number in numbers]


def test_it_is_a_number_but_not_one_number():
    numbers = many([1, 2])
    assert isinstance(numbers, int)
    assert not isinstance(many([1.5, 2.5]), int)
    for needs_one in (hash, range, math.sqrt, int, lambda value: [0, 1, 2][value]):
        with pytest.raises(TypeError):
            needs_one(numbers)
    assert hash(many([3, 3])) == hash(3)
    assert f"{numbers:,}" == "many"


@dataclass(frozen=True)
class Thing:
    name: str
    sizes: tuple[int, ...]
    other: int


def test_a_value_is_cut_to_some_points_wherever_its_numbers_are():
    numbers = many([5, 6, 5, 7])
    thing = {"a": Thing("x", (numbers, 1), numbers * 2), "b": [numbers, None]}
    assert len(leaves(thing)) == 2
    assert cut(thing, np.array([1])) == {"a": Thing("x", (6, 1), 12), "b": [6, None]}
    some = cut(thing, np.array([0, 3]))
    assert some["a"].sizes[0].array.tolist() == [5, 7]
    assert some["a"].sizes[0] is some["b"][0]


def test_equal_values_of_a_family_are_told_once():
    family = Family(Thing("x", (many([5, 6, 5, 7]),), many([1, 1, 1, 1])), 4)
    values = list(family.values())
    assert sorted(value.sizes[0] for value in values) == [5, 6, 7]
    assert [values[which].sizes[0] for which in family.which] == [5, 6, 5, 7]
    assert [member.alone() for member in family.members()] == values


@given(numbers=st.lists(st.integers(1, 500), max_size=5))
def test_divisors_and_multiples_are_those_of_the_standard_library(numbers):
    assert arithmetic.lcm(*numbers) == math.lcm(*numbers)
    assert arithmetic.gcd(*numbers) == math.gcd(*numbers)


@given(pairs=st.lists(st.tuples(st.integers(0, 4), st.integers()), max_size=20))
def test_equal_keys_are_put_together_in_order(pairs):
    expected: dict[int, list[int]] = {}
    for key, value in pairs:
        expected.setdefault(key, []).append(value)
    assert by_key(pairs) == list(expected.items())
    assert different(key for key, _ in pairs) == list(expected)


def test_what_has_no_hash_is_computed_again():
    calls = []

    @remembered(4)
    def length(values):
        calls.append(values)
        return len(values)

    assert [length((1, 2)), length((1, 2)), length([1, 2]), length([1, 2])] == [2, 2, 2, 2]
    assert calls == [(1, 2), [1, 2], [1, 2]]
    with pytest.raises(TypeError, match="len"):
        length(5)

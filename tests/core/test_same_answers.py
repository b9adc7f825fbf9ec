"""A change of a rule changes the answers that it is meant to change, and no others.

`tests/data/answered.jsonl.gz` holds scenarios that reach most of what the rules say, `answered.txt`
a digest of every answer as it was at the last review: ours, not vLLM's. After a change:

    python -m tests.core.test_same_answers              write the digests again
    python -m tests.core.test_same_answers 17 hits      print one answer, to compare two checkouts
"""

from __future__ import annotations

import json
import sys
from hashlib import blake2b

import pytest

from tests.core.answers import answers
from tests.recorded import DATA, recorded

DIGESTS = DATA / "answered.txt"
ROWS = recorded("answered")
AT_A_TIME = 50
SHOWN = 10
"""How many answers that differ are named."""


def digests(number):
    """One line: the number of the scenario, and question=digest of its answers."""
    found = (f"{name}={_digest(answer)}" for name, answer in answers(ROWS[number], number))
    return " ".join([str(number), *found])


def _digest(answer):
    return blake2b(json.dumps(answer).encode(), digest_size=3).hexdigest()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, len(ROWS), AT_A_TIME))
def test_every_answer_is_as_it_was_at_the_last_review(first):
    expected = DIGESTS.read_text("utf-8").splitlines()
    assert len(expected) == len(ROWS)
    differing = [
        f"{number} {one.partition('=')[0]}"
        for number in range(first, min(first + AT_A_TIME, len(ROWS)))
        for one in sorted(set(digests(number).split()) - set(expected[number].split()))
    ]
    assert not differing, (
        f"{len(differing)} answers differ, among them {', '.join(differing[:SHOWN])}. Print one "
        "here and in a checkout without the change: python -m tests.core.test_same_answers "
        f"{differing[0]}. If that is what you want: python -m tests.core.test_same_answers"
    )


def main(given):
    """Print one answer, or write all digests."""
    if given:
        number, question = given
        found = dict(answers(ROWS[int(number)], int(number)))[question]
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
    else:
        DIGESTS.write_text("".join(f"{digests(one)}\n" for one in range(len(ROWS))), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

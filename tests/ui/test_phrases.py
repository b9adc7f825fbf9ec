"""Whatever is entered is answered: no phrase of known and unknown words ends in an exception."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

import workbench as wb
from tests.ui.panels import region
from workbench.core.devices import DEVICES
from workbench.interop.change_words import CHOICES
from workbench.interop.glossary import glossary
from workbench.interop.questions import QUESTIONS
from workbench.models import catalog_names
from workbench.scenario import FIELDS

UNKNOWN = ("mac studio", "gtx 1080", "tpu v5e", "m3 ultra", "machine-9b", "model X", "0.99", "qwen")
JOINING = (
    "on",
    "vs",
    "or",
    "and",
    ",",
    "with",
    "instead of",
    "?",
    "why",
    "which",
    "how many",
    "is",
)
SAID = (
    "TP 4",
    "TP2xPP2",
    "8 x",
    "fp8 KV",
    "fp8",
    "MTP 2",
    "32K",
    "64 users",
    "block size 48",
    "0.33",
)
TERMS = [term.word for terms in glossary().values() for term in terms]
WORDS = st.one_of(
    st.sampled_from(JOINING),
    st.sampled_from(SAID),
    st.sampled_from([*DEVICES, *catalog_names()[:40]]),
    st.sampled_from([*FIELDS, *CHOICES, *TERMS]),
    st.sampled_from(UNKNOWN),
    st.sampled_from(" ".join(QUESTIONS).split()),
    st.integers(0, 70_000).map(str),
)


def test_a_comparison_that_cannot_be_shown_is_not_the_open_view():
    door = wb.explore(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
    door.submit("compare TP 4 and TP 8")
    assert "A against now" in region(door, "views")
    door.submit("TP 3 vs TP 4")
    assert "A cannot be shown" in region(door, "understood")
    assert door.session.errors == []
    assert "A against now" not in region(door, "views")


@given(st.lists(WORDS, min_size=1, max_size=9).map(" ".join))
@example("qwen3-8b on mac studio")
@example("deepseek-v4-flash prefixes")
@example("compare TP 3, TP 4 and TP 5")
def test_every_phrase_is_answered(text):
    door = wb.explore(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
    door.submit(text)
    assert door.session.errors == []
    assert region(door, "understood") + region(door, "body")

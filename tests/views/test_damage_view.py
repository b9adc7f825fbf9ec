"""Damage of a block-table mistake in words: where tokens land, and whether a GPU notices."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from workbench.views.tables.text import damage_html


@dataclass(frozen=True)
class Token:
    position: int
    place: str
    wrong_slot: int = 700
    hits_other: bool = False
    owner: tuple[int, int] | None = None
    group: int = 0
    request: int = 0
    slot: int = 33


@dataclass(frozen=True)
class Outcome:
    harmed: tuple[Token, ...]
    landings: tuple[Token, ...]
    out_of_bounds: int = 0
    entries_past_tables: int = 0
    num_blocks: int = 1234
    is_sample_pool: bool = False
    title: str = "A <mistake>"
    mistake: str = "a & b"
    needs: str = ""
    tokens: tuple[int, ...] = (20, 22)
    groups: int = 1

    @property
    def hits_others(self):
        return tuple(token for token in self.harmed if token.hits_other)


def outcome(*tokens, **options):
    return Outcome(tokens, (*tokens, Token(0, "its own slot", 33)), **options)


OTHER = Token(7, "a block of another request or group", hits_other=True, owner=(3, 1))
FREE = tuple(Token(position, "a free block") for position in range(40))


def test_within_the_pool_nothing_crashes():
    html = damage_html(outcome(*FREE, OTHER))
    assert "41 of 42 tokens are not in their own slot: a free block (40); a block of" in html
    assert "Counted: 42 tokens of 2 requests, in 1 group." in html
    assert "so nothing crashes" in html
    assert "Pool: the 1,234 blocks of this plan." in html
    assert html.index("request 3, group 1") < html.index("<td>a free block</td>")
    assert html.count("<td>a free block</td>") == 5
    assert "35 more tokens" in html
    assert "A &lt;mistake&gt;" in html
    assert "a &amp; b" in html


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"out_of_bounds": 2}, "Out of bounds: slots or table entries of tokens (2). A GPU"),
        ({"entries_past_tables": 9}, "Out of bounds: reads and writes of block tables (9). A"),
        (
            {"out_of_bounds": 1, "entries_past_tables": 1},
            "slots or table entries of tokens (1), reads and writes of block tables (1). A",
        ),
    ],
)
def test_out_of_bounds_is_never_called_harmless(options, said):
    past = Token(1, "memory past the end of the pool", 10**6)
    html = damage_html(outcome(past, past, **options))
    assert said in html
    assert "illegal memory access" in html
    assert "nothing crashes" not in html
    assert "memory past the end of the pool (2)" in html


def test_a_sample_pool_is_called_so():
    html = damage_html(outcome(OTHER, is_sample_pool=True))
    assert "1,234 blocks, a sample pool, because the cache memory of this plan is unknown" in html


def test_an_entry_without_a_slot_shows_none():
    html = damage_html(outcome(Token(1, "no slot: the table entry was never written", -1)))
    assert "<td>none</td>" in html
    assert "-1<" not in html


def test_the_total_says_what_is_counted():
    html = damage_html(outcome(OTHER, tokens=(1, 2), groups=3))
    assert (
        "Counted: 3 tokens of 2 requests, each once in every one of 3 groups = 9, less 7 " in html
    )


def test_no_harm():
    assert "0 of 1 tokens are not in their own slot. Every access" in damage_html(outcome())
    needs = {"needs": "tables of kernel blocks, several per manager block"}
    assert "slot. This takes tables of kernel blocks, several" in damage_html(outcome(**needs))
    assert "This takes" not in damage_html(outcome(OTHER, **needs))

"""The batch grammar: what vLLM's benchmarks write is read, everything else says what can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.errors import ScenarioError
from workbench.core.tables.batch_grammar import BatchRequest, parse_batch


@pytest.mark.parametrize(
    ("text", "requests"),
    [
        ("q2k", [BatchRequest(2048, 2048)]),
        ("q1s1k", [BatchRequest(1, 1024)]),
        ("8q1s1k", [BatchRequest(1, 1024)] * 8),
        ("q4s1k", [BatchRequest(4, 1024)]),
        ("2q2k_32q1s1k", [BatchRequest(2048, 2048)] * 2 + [BatchRequest(1, 1024)] * 32),
        (" Q100 ", [BatchRequest(100, 100)]),
    ],
)
def test_what_vllm_writes(text, requests):
    assert list(parse_batch(text)) == requests


def test_the_well_known_batch_has_34_requests():
    assert len(parse_batch("2q2k_32q1s1k")) == 34


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 9000), st.integers(0, 9000)),
        min_size=1,
        max_size=6,
    )
)
def test_a_written_batch_is_read_back(parts):
    requests = tuple(
        BatchRequest(query, query + computed)
        for count, query, computed in parts
        for _ in range(count)
    )
    words = (f"{count}q{query}s{query + computed}" for count, query, computed in parts)
    assert parse_batch("_".join(words)) == requests


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expected [count]q"),
        ("2q2k_", "Expected [count]q"),
        ("q", "Expected [count]q"),
        ("q1 s1", "Expected [count]q"),
        ("q1.5", "Expected [count]q"),
        ("-1q5", "Expected [count]q"),
        ("q٣", "Expected [count]q"),
        ("0q5", "Nearest valid count: 1"),
        ("99999999q1", "from 1 to 65,536 requests"),
        ("q0", "At least one token is new"),
        ("q5s4", "5 new tokens of 4"),
        ("q" + "9" * 5000, "At least one token is new"),
        ("60000q1_60000q1", "Nearest valid count: 5536"),
    ],
)
def test_what_cannot_be_read_is_named(text, said):
    with pytest.raises(ScenarioError) as caught:
        parse_batch(text)
    assert said in caught.value.message
    assert caught.value.field == "batch"
    assert len(caught.value.message) < 300


@given(st.text(alphabet="0123456789qsk_ -", max_size=30))
def test_any_text_is_a_batch_or_an_error(text):
    try:
        requests = parse_batch(text)
    except ScenarioError:
        return
    assert all(1 <= r.query_tokens <= r.sequence_tokens for r in requests)

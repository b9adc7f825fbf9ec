"""Every engine as prefill with every other as decode, as a matrix."""

from __future__ import annotations

import workbench as wb
from workbench.views.chunks.html import chunks_html, chunks_text
from workbench.views.chunks.rows import pair_matrix, pair_reasons

FLEET = [
    wb.resolve(model="qwen3-8b", **fields)
    for fields in ({}, {"tensor_parallel": 2}, {"kv_cache_dtype": "fp8"})
]


def test_a_fleet_is_a_matrix_with_the_reason_of_every_pair():
    found = wb.chunks(FLEET, connector="NixlConnector")
    head, *rows = pair_matrix(found.pairs())
    assert head[1:] == tuple(row[0] for row in rows)
    reasons = pair_reasons(found.pairs())
    for pair in found.pairs():
        row = next(one for one in rows if one[0] == pair.prefill.label)
        sign, number = row[head.index(pair.decode.label)].split()
        assert (sign == "✓") == pair.is_legal
        assert reasons[int(number) - 1] == pair.reason
    for at, row in enumerate(rows, 1):
        assert row[at] == ""  # an engine and itself are not a pair


def test_text_and_html_have_every_reason():
    found = wb.chunks(FLEET, connector="NixlConnector")
    for reason in pair_reasons(found.pairs()):
        assert reason in chunks_text(found)
        assert reason in chunks_html(found)

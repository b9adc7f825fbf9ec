"""An explained log as text and HTML."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.views.plans import EVIL_ATTRIBUTE
from workbench.interop.exchange import explain_log
from workbench.views.logs.table import SIGNS, headline, log_html, log_text, scenario_html

LOGS = sorted((Path(__file__).parents[1] / "data" / "logs").glob("*_*.log"))


def published(path):
    return explain_log(path).to_dict()


class Balance(HTMLParser):
    """Open elements, and whether any was closed that was not open."""

    VOID = frozenset({"br", "meta", "img"})

    def __init__(self):
        super().__init__()
        self.open, self.wrong = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


SECONDS = {"journald_ranks", "joined_line", "drafts_480"}
"""Logs that take seconds to explain; `make thorough` draws them, too."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.thorough if path.stem in SECONDS else [])
        for path in LOGS
    ],
    ids=lambda path: path.stem,
)
def test_every_message_is_in_the_text_and_in_the_table(path):
    report = published(path)
    text, html = log_text(report), log_html(report)
    for line in report["lines"]:
        assert f"line {line['line']}" in text
        assert line["means"] in text
        assert f'data-verdict="{line["verdict"]}"' in html
        assert line["verdict_text"] in html
    balance = Balance()
    balance.feed(html + scenario_html(report))
    assert (balance.open, balance.wrong) == ([], [])


def test_every_verdict_has_a_sign_of_its_own():
    assert len(set(SIGNS.values())) == len(SIGNS)


def test_the_headline_counts():
    report = published(next(path for path in LOGS if path.stem == "whole_start_0_23"))
    agree = sum(line["verdict"] == "agrees" for line in report["lines"])
    assert headline(report) == (
        f"vLLM 0.23.0: {len(report['lines'])} messages known in {report['total_lines']} lines; "
        f"{agree} agree with the rules, 0 not."
    )
    one = published(next(path for path in LOGS if path.stem == "align_budget"))
    assert headline(one).endswith("1 agrees with the rules, 0 not.")
    alone = explain_log("Setting attention block size to 528 tokens to ensure x").to_dict()
    assert "1 message known in 1 line;" in headline(alone)


def test_what_was_pasted_is_escaped():
    report = explain_log(
        f"Setting attention block size to 528 tokens to ensure {EVIL_ATTRIBUTE}\n"
        f"Resolved architecture: X{EVIL_ATTRIBUTE}"
    ).to_dict()
    assert "<img" not in log_html(report)

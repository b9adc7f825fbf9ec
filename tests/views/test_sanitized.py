"""What is left of HTML where a host removes scripts, styles, SVG and classes, as GitHub does."""

import re

import bleach
import pytest

import workbench as wb

ELEMENTS = """
a b br code dd details div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr i img li ol p pre small
span strong sub summary sup table tbody td th thead tr ul
"""
ATTRIBUTES = {"*": ["align", "alt", "colspan", "open", "rowspan", "title"], "img": ["src"]}
START = {
    "model": "qwen3-next-80b-a3b",
    "device": "H100",
    "tensor_parallel": 4,
    "enable_prefix_caching": True,
}


def sanitized(page: str) -> str:
    """Return what the host keeps; it drops the content of styles, and only the tags of others."""
    bare = re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.DOTALL)
    return bleach.clean(
        bare, ELEMENTS.split(), ATTRIBUTES, protocols=["http", "https", "data"], strip=True
    )


def words(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def plan_html() -> str:
    return wb.resolve(**START)._repr_html_()


def door_html() -> str:
    return wb.explore(**START)._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize("shown", [plan_html, door_html])
def test_the_pages_are_still_drawn_and_the_numbers_apart(shown):
    plan, left = wb.resolve(**START), sanitized(shown())
    assert left.count('<img alt="') + left.count('<img src="data:image/svg+xml') == 2
    text = words(left).split("Why:")[0]
    assert f"{plan.block_size:,} tokens per KV-cache block of {plan.model.name}" in text
    assert not re.search(r"\d (?:B|tokens)[A-Za-z]", text)
    assert "{" not in text


@pytest.mark.parametrize("name", ["bytes", "hits", "capacity", "offload", "flex", "versions"])
def test_a_lab_with_figures_still_shows_them_with_their_words(name):
    opened = getattr(wb.lab, name)(**START)
    left = sanitized(opened._repr_mimebundle_()["text/html"])
    images = re.findall(r"<img [^>]*>", left)
    assert images
    assert all(len(re.search(r'alt="([^"]*)"', one)[1]) > 40 for one in images)
    opened.close()


def test_what_can_be_copied_is_still_there():
    opened = wb.lab.export(**START)
    assert "vllm serve" in words(sanitized(opened._repr_mimebundle_()["text/html"]))
    opened.close()

from dataclasses import dataclass

import pytest

from workbench.views.bytes.owner_figure import MAX_PAGES
from workbench.views.figures import owners_side_by_side, page_owners


@dataclass
class Page:
    block: int
    own_bytes: int
    misplaced_bytes: int
    unwritten_bytes: int


@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
@pytest.mark.parametrize("count", [1, 3, MAX_PAGES, MAX_PAGES + 5])
def test_every_page_is_a_bar_of_all_its_bytes(count, theme):
    pages = [Page(block, 60, block % 3, 40 - block % 3) for block in range(count)]
    figure = page_owners(pages, "owners", theme)
    assert [trace.name for trace in figure.data] == ["own block", "another block", "padding"]
    drawn = min(count, MAX_PAGES)
    totals = [sum(sizes) for sizes in zip(*(trace.x for trace in figure.data), strict=True)]
    assert totals == [100] * drawn
    left = count - drawn
    assert (f"{left} more pages" in figure.layout.annotations[0].text) == bool(left)


def test_before_and_after_are_side_by_side_with_one_legend():
    before = [Page(block, 60, 40, 0) for block in range(3)]
    after = [Page(block, 100, 0, 0) for block in range(3)]
    figure = owners_side_by_side(before, after)
    crossed = [trace for trace in figure.data if trace.name == "another block"]
    assert [sum(trace.x) for trace in crossed] == [120, 0]
    assert [trace.xaxis for trace in crossed] == ["x", "x2"]
    assert [trace.showlegend for trace in figure.data] == [True] * 3 + [False] * 3
    titles = [annotation.text for annotation in figure.layout.annotations]
    assert titles == ["before the rewrite", "after the rewrite"]

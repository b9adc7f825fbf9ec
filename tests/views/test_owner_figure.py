from dataclasses import dataclass

import pytest

from workbench.views.figures import page_owners
from workbench.views.owner_figure import MAX_PAGES


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
    assert (f"{left} more pages" in figure.layout.title.text) == bool(left)

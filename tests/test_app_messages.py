"""Binary messages from a browser: what `workbench app` takes for one."""

from __future__ import annotations

import pytest

pytest.importorskip("voila", reason="Voila is not installed: pip install '.[app]'")
from workbench.commands.app_server import FORM_1_SIZES, SIZES, has_parts


@pytest.mark.parametrize("sizes", [FORM_1_SIZES, SIZES])
def test_the_parts_of_a_message_follow_each_other(sizes):
    size, order = sizes

    def framed(*numbers, length=8):
        return b"".join(one.to_bytes(size, order) for one in numbers) + bytes(length)

    begin = 4 * size
    assert has_parts(framed(3, begin, begin, begin + 8), *sizes)
    assert has_parts(framed(1, 2 * size), *sizes)
    assert not has_parts(framed(3, begin, begin, begin + 9), *sizes)
    assert not has_parts(framed(3, begin + 8, begin, begin + 8), *sizes)
    assert not has_parts(framed(2**31, begin), *sizes)
    assert not has_parts(framed(3, begin, begin, length=size - 1), *sizes)
    assert not has_parts(framed(0), *sizes)

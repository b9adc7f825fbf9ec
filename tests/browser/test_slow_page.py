"""Figures on a page that is many times slower; a file of its own, so that no other tab is open."""

import pytest

from tests.browser.test_figures import (
    HELPERS,
    NOTEBOOK,
    PANEL,
    change,
    expect_present_figures,
)


@pytest.mark.thorough
@pytest.mark.parametrize("slower", [4, pytest.param(12, marks=pytest.mark.thorough)])
def test_figures_arrive_on_a_machine_that_is_many_times_slower(lab, slower):
    session = lab.page.context.new_cdp_session(lab.page)
    lab.set_viewport(1280, 1100)
    lab.open(NOTEBOOK.name)
    session.send("Emulation.setCPUThrottlingRate", {"rate": slower})
    lab.run_all()
    lab.execute(HELPERS)
    lab.scroll_to(PANEL)
    change(lab, model="qwen3.5-4b", enable_prefix_caching=True)
    lab.open_lab("Prefix hits")
    assert expect_present_figures(lab) == 1
    change(lab, tensor_parallel=2)
    assert expect_present_figures(lab) == 1

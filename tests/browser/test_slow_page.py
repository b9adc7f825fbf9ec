"""Figures on a page that is many times slower; a file of its own, so that no other tab is open."""

from tests.browser.test_figures import (
    HELPERS,
    NOTEBOOK,
    PANEL,
    change,
    expect_present_figures,
)

SLOW = 12  # times slower than this machine's own processor


def test_figures_arrive_on_a_machine_that_is_many_times_slower(lab):
    session = lab.page.context.new_cdp_session(lab.page)
    lab.set_viewport(1280, 1100)
    lab.open(NOTEBOOK.name)
    session.send("Emulation.setCPUThrottlingRate", {"rate": SLOW})
    lab.run_all()
    lab.execute(HELPERS)
    lab.scroll_to(PANEL)
    change(lab, model="qwen3.5-4b", enable_prefix_caching=True)
    lab.open_lab("Prefix hits")
    assert expect_present_figures(lab) == 1
    change(lab, tensor_parallel=2)
    assert expect_present_figures(lab) == 1

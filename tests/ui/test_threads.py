"""Two threads at the controls: nothing torn, nothing lost, nothing raised."""

from __future__ import annotations

import threading
from contextlib import suppress

from tests.ui.panels import figure, headline
from tests.ui.test_explore import assert_shows_its_plan
from workbench.ui.pieces import ProgramChanges
from workbench.views.pages.figure import page_title

CHANGES = 200
OTHER_CHANGES = 30
PATIENCE_S = 300  # reached by what is broken, never by a busy machine


def test_two_threads_change_controls_of_one_panel(panel, monkeypatch):
    torn, failures = [], []
    show_tabs = panel._tabs.show

    def watched(plan):
        if f'data-value="{plan.block_size}"' not in headline(panel):
            torn.append(plan)
        if figure(panel).layout.title.text != page_title(plan):
            torn.append(plan)
        show_tabs(plan)

    monkeypatch.setattr(panel._tabs, "show", watched)

    def other():
        try:
            for number in range(OTHER_CHANGES):
                panel.controls["max_num_batched_tokens"].value = str(4096 + number)
                panel.controls["num_speculative_tokens"].value = 1 + number % 3
        except Exception as error:  # noqa: BLE001  (handed to the test)
            failures.append(error)

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    for number in range(CHANGES):
        panel.controls["tensor_parallel"].value = (1, 4, 2)[number % 3]
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert failures == []
    assert torn == []
    assert panel.session.errors == []
    newest = panel.scenario
    assert newest.tensor_parallel == 4
    assert newest.max_num_batched_tokens == 4096 + OTHER_CHANGES - 1
    assert newest.num_speculative_tokens == 1 + (OTHER_CHANGES - 1) % 3
    assert_shows_its_plan(panel)


def test_the_last_of_two_threads_wins(panel):
    """Expect controls, plan and figure to agree whichever thread came last."""
    for number in range(10):
        ready = threading.Barrier(2)

        def set_size(size, ready=ready):
            ready.wait(PATIENCE_S)
            panel.controls["tensor_parallel"].value = size

        sizes = ((4, 2), (1, 8))[number % 2]
        threads = [threading.Thread(target=set_size, args=(size,)) for size in sizes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert panel.scenario.tensor_parallel in {*sizes}
        assert panel.plan.settings == panel.scenario
        assert figure(panel).layout.title.text == page_title(panel.plan)
        assert panel.controls["tensor_parallel"].value == panel.scenario.tensor_parallel


def test_changes_by_the_program_count_in_their_thread_and_end_with_the_block():
    by_program, seen = ProgramChanges(), []
    with suppress(ZeroDivisionError), by_program:
        with by_program:
            thread = threading.Thread(target=lambda: seen.append(bool(by_program)))
            thread.start()
            thread.join(PATIENCE_S)
        seen.append(bool(by_program))
        raise ZeroDivisionError
    assert seen == [False, True]
    assert not by_program

"""Two threads at the controls: nothing torn, nothing lost, nothing raised."""

from __future__ import annotations

import threading
from contextlib import suppress

from tests.ui.panels import region
from tests.ui.test_front_door import assert_shows_its_plan
from workbench.ui.pieces import ProgramChanges

CHANGES = 100
OTHER_CHANGES = 30
PATIENCE_S = 300  # reached by what is broken, never by a busy machine


def test_two_threads_change_fields_of_one_door(panel, monkeypatch):
    torn, failures = [], []
    show = panel.labs.show

    def watched(plan):
        if panel.view.plan != plan.fingerprint:
            torn.append(plan)
        if f"{plan.block_size:,} tokens" not in region(panel, "answers"):
            torn.append(plan)
        show(plan)

    monkeypatch.setattr(panel.labs, "show", watched)

    def other():
        try:
            for number in range(OTHER_CHANGES):
                panel.apply(max_num_batched_tokens=4096 + number)
                panel.apply(num_speculative_tokens=1 + number % 3)
        except Exception as error:  # noqa: BLE001  (handed to the test)
            failures.append(error)

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    for number in range(CHANGES):
        panel.apply(tensor_parallel=(1, 4, 2)[number % 3])
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert failures == []
    assert torn == []
    assert panel.session.errors == []
    newest = panel.scenario
    assert newest.tensor_parallel == (1, 4, 2)[(CHANGES - 1) % 3]
    assert newest.max_num_batched_tokens == 4096 + OTHER_CHANGES - 1
    assert newest.num_speculative_tokens == 1 + (OTHER_CHANGES - 1) % 3
    assert_shows_its_plan(panel)


def test_the_last_of_two_threads_wins(panel):
    """Expect scenario, plan and picture to agree whichever thread came last."""
    for number in range(10):
        ready = threading.Barrier(2)

        def set_size(size, ready=ready):
            ready.wait(PATIENCE_S)
            panel.apply(tensor_parallel=size)

        sizes = ((4, 2), (1, 8))[number % 2]
        threads = [threading.Thread(target=set_size, args=(size,)) for size in sizes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert panel.scenario.tensor_parallel in {*sizes}
        assert panel.plan.settings == panel.scenario
        assert_shows_its_plan(panel)


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

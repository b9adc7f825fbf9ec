"""One thread shows, always the newest; a show that fails leaves the session usable."""

from __future__ import annotations

import threading

import pytest

from workbench.door.session import Outcome, Session, evaluate
from workbench.scenario import Scenario

LIMIT_S = 300  # reached by what is broken, never by a busy machine


def scenario(tensor_parallel):
    return Scenario(model="llama-3.1-8b", tensor_parallel=tensor_parallel)


class SlowShow:
    """A callback that shows only when it is allowed to, and keeps what it showed."""

    def __init__(self):
        self.shown = []
        self.threads = set()
        self.entered = threading.Semaphore(0)
        self.allowed = threading.Semaphore(0)
        self.failing = {}

    def __call__(self, outcome):
        self.entered.release()
        assert self.allowed.acquire(timeout=LIMIT_S)
        self.threads.add(threading.get_ident())
        size = outcome.scenario.tensor_parallel
        if size in self.failing:
            raise self.failing[size]
        self.shown.append(size)

    def wait_until_it_shows(self):
        assert self.entered.acquire(timeout=LIMIT_S)


@pytest.fixture
def show():
    return SlowShow()


def started(session, wanted, errors=None):
    def ask():
        try:
            session.request(wanted)
        except Exception as error:  # noqa: BLE001  (handed to the test)
            errors.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread


def joined(thread):
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def test_outcome_of_a_good_and_a_refused_scenario():
    good, refused = evaluate(scenario(1)), evaluate(scenario(3))
    assert (good.plan.settings.tensor_parallel, good.error) == (1, None)
    assert (refused.plan, refused.error.code) == (None, "heads_not_divisible")
    assert isinstance(good, Outcome)


def test_intermediate_requests_are_skipped(show):
    session = Session(scenario(1), show)
    thread = started(session, scenario(1))
    show.wait_until_it_shows()
    for size in (2, 4, 8, 16):
        session.request(scenario(size))
    assert session.scenario == scenario(16)
    assert show.shown == []
    show.allowed.release(2)
    joined(thread)
    assert show.shown == [1, 16]
    assert show.threads == {thread.ident}


def test_a_request_never_waits_for_the_thread_that_shows(show):
    session = Session(scenario(1), show)
    thread = started(session, scenario(1))
    show.wait_until_it_shows()
    session.request(scenario(2))
    assert show.shown == []
    show.allowed.release(2)
    joined(thread)
    session_is_idle(session, show)


def session_is_idle(session, show):
    show.allowed.release()
    session.request(scenario(32))
    assert show.shown[-1] == 32


def test_a_show_that_raises_leaves_the_session_usable(show):
    session = Session(scenario(1), show)
    show.failing = {2: RuntimeError("planted")}
    show.allowed.release()
    with pytest.raises(RuntimeError, match="planted"):
        session.request(scenario(2))
    session_is_idle(session, show)


def test_an_interrupt_leaves_the_session_usable(show):
    session = Session(scenario(1), show)
    show.failing = {2: KeyboardInterrupt()}
    show.allowed.release()
    with pytest.raises(KeyboardInterrupt):
        session.request(scenario(2))
    session_is_idle(session, show)


def test_a_request_during_a_show_that_raises_is_shown_all_the_same(show):
    session = Session(scenario(1), show)
    show.failing = {1: RuntimeError("planted")}
    errors = []
    thread = started(session, scenario(1), errors)
    show.wait_until_it_shows()
    session.request(scenario(8))
    show.allowed.release(2)
    joined(thread)
    assert show.shown == [8]
    assert [str(error) for error in errors] == ["planted"]
    session_is_idle(session, show)


def test_a_show_may_request_again():
    shown = []

    def show(outcome):
        shown.append(outcome.scenario.tensor_parallel)
        if outcome.scenario.tensor_parallel < 8:
            session.request(scenario(2 * outcome.scenario.tensor_parallel))

    session = Session(scenario(1), show)
    session.request(scenario(1))
    assert shown == [1, 2, 4, 8]


def test_a_change_builds_on_the_request_of_another_thread():
    session = Session(scenario(1), lambda outcome: None)
    values = []

    def change(present):
        values.append(present.tensor_parallel)
        if len(values) == 1:
            session.request(present.replace(tensor_parallel=4))
        return present.replace(block_size=32)

    session.change(change)
    assert values == [1, 4]
    assert (session.scenario.tensor_parallel, session.scenario.block_size) == (4, 32)


def test_a_change_that_raises_changes_nothing():
    session = Session(scenario(1), lambda outcome: None)
    with pytest.raises(ZeroDivisionError):
        session.change(lambda present: 1 // 0)
    assert session.scenario == scenario(1)
    session.request(scenario(2))
    assert session.scenario == scenario(2)


def test_many_threads_lose_no_change_and_show_the_newest():
    shown = []
    session = Session(Scenario(model="llama-3.1-8b"), lambda outcome: shown.append(outcome.plan))
    fields = ("block_size", "max_model_len", "max_num_batched_tokens", "mamba_block_size")

    def work(field):
        for value in range(1, 101):
            session.change(lambda present, v=value: present.replace(**{field: 16 * v}))

    threads = [threading.Thread(target=work, args=(field,)) for field in fields]
    for thread in threads:
        thread.start()
    for thread in threads:
        joined(thread)
    assert [getattr(session.scenario, field) for field in fields] == [1600] * 4
    assert shown[-1].settings == session.scenario

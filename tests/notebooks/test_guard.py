import asyncio
import json
import logging
import sys
import threading

import pytest

from workbench.run.notebooks import guard


@pytest.fixture
def recorded(monkeypatch, tmp_path):
    path = tmp_path / "hidden.jsonl"
    monkeypatch.setenv("WORKBENCH_HIDDEN_ERRORS", str(path))
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    logger = logging.getLogger("asyncio")
    monkeypatch.setattr(logger, "handlers", [])
    guard.install()

    def read():
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [(line["kind"], line["error"]) for line in map(json.loads, lines)]

    return read


async def fail():
    raise ValueError("hidden")


def test_a_failed_thread_is_recorded_and_an_exit_is_not(recorded):
    for action in (lambda: 1 / 0, lambda: sys.exit(1)):
        thread = threading.Thread(target=action)
        thread.start()
        thread.join()
    assert recorded() == [("background_thread", "ZeroDivisionError: division by zero")]


def test_a_failed_task_that_is_kept_is_recorded_once(recorded):
    async def notebook():
        task = asyncio.create_task(fail())
        await guard.settle(0.1)
        del task

    asyncio.run(notebook())
    assert recorded() == [("asyncio_task", "ValueError: hidden")]


def test_a_failed_task_that_nobody_keeps_is_recorded(recorded):
    async def notebook():
        asyncio.create_task(fail())  # noqa: RUF006 - nobody keeps it
        await guard.settle(0.1)

    asyncio.run(notebook())
    assert recorded() == [("asyncio_task", "ValueError: hidden")]


def test_an_awaited_or_cancelled_task_is_no_error(recorded):
    async def notebook():
        with pytest.raises(ValueError, match="hidden"):
            await asyncio.create_task(fail())
        waiting = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        waiting.cancel()
        await guard.settle(0.1)

    asyncio.run(notebook())
    assert recorded() == []


def test_the_guard_waits_for_a_thread_that_is_about_to_fail(recorded):
    def work():
        release.wait()
        raise ValueError("late")

    async def notebook():
        thread = threading.Thread(target=work)
        thread.start()
        asyncio.get_running_loop().call_later(0.1, release.set)
        await guard.settle(10)
        thread.join()

    release = threading.Event()
    asyncio.run(notebook())
    assert recorded() == [("background_thread", "ValueError: late")]

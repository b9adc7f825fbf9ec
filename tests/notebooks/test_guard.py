import asyncio
import json
import logging
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, as_completed

import pytest

from workbench.notebooks import guard, unread_futures


@pytest.fixture
def recorded(monkeypatch, tmp_path):
    path = tmp_path / "hidden.jsonl"
    monkeypatch.setenv("WORKBENCH_HIDDEN_ERRORS", str(path))
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    logger = logging.getLogger("asyncio")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(unread_futures, "_unread", {})
    for name in ("set_exception", "result", "exception"):
        monkeypatch.setattr(Future, name, getattr(Future, name))  # put back at the end
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


@pytest.mark.thorough
def test_a_failed_task_that_is_kept_is_recorded_once(recorded):
    async def notebook():
        task = asyncio.create_task(fail())
        await guard.settle(0.1)
        del task

    asyncio.run(notebook())
    assert recorded() == [("asyncio_task", "ValueError: hidden")]


def test_a_failed_task_without_a_reference_is_recorded(recorded):
    async def notebook():
        asyncio.create_task(fail())  # noqa: RUF006 - no reference is kept
        await guard.settle(0.1)

    asyncio.run(notebook())
    assert recorded() == [("asyncio_task", "ValueError: hidden")]


def test_an_awaited_or_cancelled_task_is_not_an_error(recorded):
    async def notebook():
        with pytest.raises(ValueError, match="hidden"):
            await asyncio.create_task(fail())
        waiting = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        waiting.cancel()
        await guard.settle(0.1)

    asyncio.run(notebook())
    assert recorded() == []


def test_a_failed_future_is_recorded_unless_code_reads_it(recorded):
    def fail_in(name):
        raise ValueError(name)

    async def notebook():
        with ThreadPoolExecutor() as pool:
            unread, seen, raised = (pool.submit(fail_in, one) for one in ("unread", "seen", "read"))
            assert str(seen.exception()) == "seen"
            with pytest.raises(ValueError, match="read"):
                raised.result()
            with pytest.raises(ValueError, match="awaited"):
                await asyncio.get_running_loop().run_in_executor(pool, fail_in, "awaited")
            [*as_completed([unread])]
        await guard.settle(0.1)

    asyncio.run(notebook())
    assert recorded() == [("unread_future", "ValueError: unread")]


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


@pytest.mark.thorough
def test_a_pause_of_the_whole_process_does_not_cut_the_wait_short(recorded):
    def work():
        release.wait()
        time.sleep(0.02)
        raise ValueError("late")

    def pause():
        time.sleep(0.5)
        release.set()

    async def notebook():
        thread = threading.Thread(target=work)
        thread.start()
        asyncio.get_running_loop().call_later(0.06, pause)
        await guard.settle(0.3)
        found.extend(recorded())
        thread.join()

    release, found = threading.Event(), []
    asyncio.run(notebook())
    assert found == [("background_thread", "ValueError: late")]


def test_a_task_of_a_cell_that_goes_on_is_recorded_and_a_librarys_is_not(recorded):
    source = "async def wait():\n    await asyncio.sleep(60)\n"
    cell, library = {"asyncio": asyncio}, {"asyncio": asyncio}
    exec(compile(source, "/tmp/ipykernel_7/1.py", "exec"), cell)
    exec(compile(source, "library.py", "exec"), library)

    async def notebook():
        tasks = [asyncio.create_task(each["wait"]()) for each in (cell, library)]
        await guard.settle(0.1)
        for task in tasks:
            task.cancel()

    asyncio.run(notebook())
    assert recorded() == [
        ("pending_task", "RuntimeError: wait was still running after the last cell")
    ]


def test_a_coroutine_of_a_cell_that_never_started_is_recorded_and_a_librarys_is_not(recorded):
    source = "async def wait():\n    pass\n"
    cell, library = {}, {}
    exec(compile(source, "/tmp/ipykernel_7/1.py", "exec"), cell)
    exec(compile(source, "library.py", "exec"), library)
    held = [each["wait"]() for each in (cell, library)]
    asyncio.run(guard.settle(0.1))
    for coroutine in held:
        coroutine.close()
    assert recorded() == [("never_awaited", "RuntimeError: coroutine 'wait' was never awaited")]


NETWORK = """
import json, socket, sys, urllib.request
from workbench.notebooks.guard import refuse_network

found = []
refuse_network(lambda kind, error: found.append([kind, str(error)]))
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname(), timeout=5).close()
socket.getaddrinfo("localhost", 80)
socket.getaddrinfo(None, 80)
urllib.request.urlopen("data:,text").close()
quiet = len(found)
for attempt in (
    lambda: socket.create_connection(("192.0.2.7", 80), timeout=5),
    lambda: socket.getaddrinfo("example.com", 443),
    lambda: socket.gethostbyname("example.org"),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.8", 9)),
    lambda: urllib.request.urlopen("http://example.net/a"),
):
    try:
        attempt()
    except ConnectionError:
        pass
    else:
        found.append("it went through")
print(json.dumps([quiet, [host for _, text in found for host in text.split("'")[1:2]]]))
"""


def test_the_network_is_refused_and_this_machine_is_not():
    done = subprocess.run(
        [sys.executable, "-c", NETWORK], capture_output=True, text=True, check=True, timeout=300
    )
    quiet, hosts = json.loads(done.stdout)
    assert quiet == 0
    assert hosts == ["192.0.2.7", "example.com", "example.org", "192.0.2.8", "example.net"]


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.8.9.1", True),
        ("::1", True),
        ("LOCALHOST.", True),
        ("", True),
        ("0.0.0.0", True),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
        ("8.8.8.8", False),
    ],
)
def test_what_this_machine_is(host, local):
    assert guard.is_local(host) is local

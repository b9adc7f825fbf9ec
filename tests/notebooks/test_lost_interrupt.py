"""A cell that waits for what floods is interrupted, by a second signal too, and its reply never."""

import subprocess
import sys
from textwrap import dedent

import pytest

PROGRAM = """
    import os, signal, sys, threading, time
    from types import SimpleNamespace
    from workbench.notebooks import output_limit

    kill, sent, ended = signal.pthread_kill, [], threading.Event()

    def lose(thread, number):
        sent.append(number)
        if len(sent) > 1:
            kill(thread, number)

    def repeat_late(thread, number):
        sent.append(number)
        if len(sent) > 1:
            ended.wait()
        kill(thread, number)

    signal.pthread_kill = DELIVERY
    limit = output_limit.OutputLimit(10, lambda error: None)
    limit.install(SimpleNamespace(send=None))
    flood = threading.Thread(target=lambda: limit.take(11), daemon=True)
    cell = compile(CELL, "/tmp/ipykernel_1/2.py", "exec")
    try:
        exec(cell)
    except KeyboardInterrupt:
        pass
    ended.set()
    time.sleep(2)
    os.write(1, f"replied after {len(sent)}".encode())
"""
WAIT = "flood.start(); threading.Event().wait(60)"
SLOW_CLEANUP = """
try:
    flood.start()
    while True:
        time.sleep(0.01)
finally:
    time.sleep(1)
"""
"""No signal is lost in it, and it is in its cleanup when the second one is decided."""


@pytest.mark.parametrize(
    ("delivery", "cell"), [("lose", WAIT), ("repeat_late", SLOW_CLEANUP)], ids=["lost", "late"]
)
def test_a_cell_is_interrupted_and_its_reply_is_not(delivery, cell):
    program = dedent(PROGRAM).replace("DELIVERY", delivery).replace("CELL", repr(cell))
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.stdout == "replied after 2", done.stderr

"""A cell that waits for what floods is interrupted, also if the first signal ends no wait."""

import subprocess
import sys
from textwrap import dedent

PROGRAM = """
    import signal, sys, threading
    from workbench.notebooks import output_limit

    kill, sent = signal.pthread_kill, []

    def losing(thread, number):
        sent.append(number)
        if len(sent) > 1:
            kill(thread, number)

    output_limit.signal.pthread_kill = losing
    limit = output_limit.OutputLimit(10, lambda error: None)
    threading.Thread(target=lambda: limit.take(11), daemon=True).start()
    cell = compile("threading.Event().wait(60)", "/tmp/ipykernel_1/2.py", "exec")
    try:
        exec(cell)
    except KeyboardInterrupt:
        print("interrupted after", len(sent))
"""


def test_an_interrupt_that_ends_no_wait_is_sent_again():
    command = [sys.executable, "-c", dedent(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.stdout == "interrupted after 2\n", done.stderr

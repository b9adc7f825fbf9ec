"""Cells that take, print, start or reach what they must not: the broken cell of a notebook."""

CELLS = {
    "hog": """
held = []
for _ in range(4096):
    held.append(b"x" * 2**24)
""",
    "hog_child": """
import subprocess, sys
code = "held = [b'x' * 2**24 for _ in range(4096)]"
subprocess.run([sys.executable, "-c", code])
""",
    "swallowed_flood": """
try:
    while True:
        print("x" * 2**16)
except RuntimeError:
    pass
""",
    "printed_flood": """
while True:
    print("x" * 2**16)
""",
    "one_print": "print('x' * 2**28)",
    "displayed_flood": """
from IPython.display import HTML, display

while True:
    display(HTML("x" * 2**16))
""",
    "widget_flood": """
import itertools
import ipywidgets as widgets

box = widgets.HTML()
for number in itertools.count():
    box.value = str(number) + "x" * 2**16
""",
    "thread_flood": """
import threading

def flood():
    while True:
        print("x" * 2**16)

thread = threading.Thread(target=flood, daemon=True)
thread.start()
threading.Event().wait()
""",
    "shell_flood": "!yes",
    "child_flood": """
import subprocess
subprocess.run(["yes"])
""",
    "long_error": "raise ValueError('x' * 2**27)",
    "unread_future": """
from concurrent.futures import ThreadPoolExecutor

def fail():
    raise ValueError("hidden in a future")

with ThreadPoolExecutor() as pool:
    future = pool.submit(fail)
""",
    "held_coroutine": """
async def forgotten():
    pass

forgotten()
""",
    "child_network": """
import subprocess, sys
code = "import socket; socket.create_connection(('192.0.2.7', 80), timeout=5)"
subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
""",
    "shell_network": "!bash -c ': < /dev/tcp/192.0.2.8/80' 2>/dev/null || true",
    "failed_command": "!exit 3",
    "captured_command": "found = !echo said; exit 4",
    "local_child": """
import subprocess, sys
code = (
    "import socket; server = socket.create_server(('127.0.0.1', 0));"
    "socket.create_connection(server.getsockname(), timeout=5);"
    "socket.getaddrinfo('localhost', 80)"
)
subprocess.run([sys.executable, "-c", code], check=True)
""",
    "orphans": """
import os, subprocess, sys
from workbench.notebooks import record_results

wait = [sys.executable, "-c", "import time; time.sleep(3600)"]
in_session = subprocess.Popen(wait, start_new_session=True).pid
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writing, str(os.getpid()).encode())
        os.execv(wait[0], wait)
    os._exit(0)
left = [in_session, int(os.read(reading, 20))]
""",
}
CELLS["orphans"] += "record_results(left=left, total=0)"
CELLS["orphans_and_wait"] = CELLS["orphans"] + "; import time; time.sleep(3600)"
"""Name of a notebook -> the source of its cell 3."""

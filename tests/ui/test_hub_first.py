"""A model of the hub is read while the kernel answers other clicks, and only once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

may_answer, requests = threading.Event(), []

class Hub(BaseHTTPRequestHandler):
    def do_HEAD(self, content=b""):
        requests.append(self.command)
        may_answer.wait(60)
        text = open(sys.argv[1], "rb").read()
        self.send_response(200)
        for name, value in (("ETag", '"1"'), ("X-Repo-Commit", "a" * 40)):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(text)
    do_GET = do_HEAD
    def log_message(self, *args):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
threading.Thread(target=server.serve_forever, daemon=True).start()
import os
os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"

import workbench as wb
from workbench.models import hub
hub.HUB_SECONDS = 60  # the hub answers when this script lets it

door = wb.explore()
first = door.scenario.model
def click(**message):
    door._clicked(door.view, message, ())
click(do="submit", arg="vllm serve owner/model -tp 2")
waiting = door.view.regions["understood"]
click(do="set", arg="tensor_parallel", text="4")
meanwhile = (door.scenario.model, door.plan.settings.tensor_parallel)
click(do="submit", arg="vllm serve owner/other -tp 2")
may_answer.set()
def shown(tensor_parallel):
    settings = door.plan.settings
    return (door.plan.scenario.model, settings.tensor_parallel) == ("owner/other", tensor_parallel)
def wait(tensor_parallel):
    end = time.monotonic() + 60
    while not shown(tensor_parallel) and time.monotonic() < end:
        time.sleep(0.01)
    return shown(tensor_parallel)
came = wait(2)
seen = len(requests)
door.set("tensor_parallel", "1")
came = came and wait(1)
print(json.dumps({
    "first": first, "waiting": waiting, "meanwhile": meanwhile,
    "visits": [visit.scenario.model for visit in door._history.visits],
    "came": came, "again": len(requests) - seen,
    "errors": [error.traceback for error in door.session.errors],
}))
"""


@pytest.mark.slow
def test_the_kernel_answers_while_the_hub_is_read(tmp_path):
    config = Path(__file__).parents[1] / "data" / "models" / "bamba_9b.json"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(config)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path)},
    )
    assert done.stdout, done.stderr
    seen = json.loads(done.stdout)
    assert seen["errors"] == []
    assert "Reading config.json of owner/model from the hub" in seen["waiting"]
    assert seen["meanwhile"] == [seen["first"], 4]
    assert seen["visits"][-1] == "owner/other"
    assert "owner/model" not in seen["visits"]  # a newer entry took its place
    assert (seen["came"], seen["again"]) == (True, 0)

"""What leads outside this machine, as the addresses of system calls say it."""

import ipaddress
import platform
import socket
import subprocess
import sys

import pytest

from workbench.notebooks.network_filter import MACHINES
from workbench.notebooks.offline import remote_place
from workbench.notebooks.output_limit import OutputLimit, OutputLimitError, size_of


def address(host, port):
    parsed = ipaddress.ip_address(host)
    family = socket.AF_INET if parsed.version == 4 else socket.AF_INET6
    flow = b"" if parsed.version == 4 else bytes(4)
    rest = port.to_bytes(2, "big") + flow + parsed.packed + bytes(8)
    return int(family).to_bytes(2, sys.byteorder) + rest


@pytest.mark.parametrize(
    ("host", "port", "place"),
    [
        ("192.0.2.7", 80, "192.0.2.7 port 80"),
        ("2001:db8::1", 443, "2001:db8::1 port 443"),
        ("127.0.0.53", 53, "the name service at 127.0.0.53"),
        ("127.0.0.1", 8888, ""),
        ("::1", 8888, ""),
        ("::ffff:127.0.0.1", 8888, ""),
        ("::ffff:192.0.2.9", 1, "192.0.2.9 port 1"),
        ("0.0.0.0", 8888, ""),
        ("10.1.2.3", 8888, ""),
    ],
)
def test_an_address_is_local_or_names_its_place(host, port, place):
    assert remote_place(address(host, port), own={"10.1.2.3"}) == place


@pytest.mark.parametrize(
    "raw", [b"", b"\x02", address("192.0.2.7", 80)[:7], b"\x01\x00/run/socket"]
)
def test_an_address_of_another_family_is_let_through(raw):
    assert remote_place(raw) == ""


WATCHED = """
import socket
from workbench.notebooks.offline import refuse_network
assert refuse_network(print) == ""
import psutil
psutil.net_if_addrs()  # holds the interpreter's lock while it sends to the kernel
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(("localhost", server.getsockname()[1])).close()
for family, host in ((socket.AF_INET, "203.0.113.7"), (socket.AF_INET6, "2001:db8::1")):
    for send in ("connect", "sendto", "sendmsg"):
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            arguments = {"connect": [], "sendto": [b"x"], "sendmsg": [[b"x"], [], 0]}[send]
            try:
                getattr(one, send)(*arguments, (host, 9))
            except OSError as error:
                assert error.errno == 101, error
            else:
                raise AssertionError((host, send))
print("done")
"""


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in MACHINES, reason="no filter is known here"
)
def test_a_watched_process_never_waits_for_itself():
    done = subprocess.run(
        [sys.executable, "-c", WATCHED], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.endswith("done\n"), done.stderr
    assert "tried to reach 203.0.113.7 port 9" in done.stdout


def test_output_is_counted_at_any_depth_and_reported_once():
    shown = {"data": {"text": ["abc", ("de",)], "raw": b"12"}, "view": memoryview(bytes(4))}
    assert size_of(shown) == sum(map(len, ("data", "text", "raw", "view", "abc", "de", "12"))) + 4
    found = []
    limit = OutputLimit(10, found.append)
    limit.take(10)
    for _ in range(2):
        with pytest.raises(OutputLimitError, match="of output"):
            limit.take(1)
    assert len(found) == 1

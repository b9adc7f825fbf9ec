"""In the worker: refuse the network to the kernel and to every program that it starts.

The guard inside the kernel sees what the kernel's own Python does. A child process (`!curl`, a
`python -c`, a linked library) reaches the network without it. On Linux, a seccomp filter that
every child inherits hands `connect` and sending to an address over to a thread of this process,
which reads the address: this machine is let through, any other is recorded and refused.
"""

import ctypes
import errno
import ipaddress
import os
import platform
import shlex
import socket
import struct
import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path

import psutil

from workbench.notebooks.network_filter import MACHINES, Calls, program

WATCHED_VARIABLE = "WORKBENCH_NETWORK_WATCHED"
"""Set for everything below a process that watches: one filter with a listener is allowed."""
NAME_SERVICE_PORT = 53
_FIRST_RELEASE = (5, 5)
"""Linux that can let a call continue after a look at it."""
_NO_NEW_PRIVILEGES, _SET_FILTER = 38, 1
_WITH_LISTENER, _NO_SLOWER_LOADS = 1 << 3, 1 << 2
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101
_CONTINUE = 1
_CALL = struct.Struct("=QIIiIQ6Q")
"""struct seccomp_notif: id, pid, flags, number, architecture, instruction pointer, arguments."""
_REPLY = struct.Struct("=QqiI")
_LONGEST_ADDRESS = 128
_SHOWN_CHARACTERS = 80


def refuse_network(record: Callable[[str], None]) -> str:
    """Refuse the network to this thread and all that it starts, permanently.

    record: called once per process with what it tried. Returns why nothing is watched; empty
    where it is.
    """
    if os.environ.get(WATCHED_VARIABLE):
        return ""
    calls = MACHINES.get(platform.machine())
    if sys.platform != "linux" or calls is None:
        return f"{platform.system()} on {platform.machine()} has no filter that this runner knows"
    if tuple(map(int, platform.release().split(".")[:2])) < _FIRST_RELEASE:
        return f"Linux {platform.release()} is older than {'.'.join(map(str, _FIRST_RELEASE))}"
    watch = _Watch(calls, record)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    listener = libc.syscall(
        calls.seccomp, _SET_FILTER, _WITH_LISTENER | _NO_SLOWER_LOADS, program(calls)
    )
    if listener < 0:
        return f"the system refuses a seccomp filter ({os.strerror(ctypes.get_errno())})"
    os.environ[WATCHED_VARIABLE] = "1"
    threading.Thread(target=watch.serve, args=(listener,), name="offline", daemon=True).start()
    return ""


class _Watch:
    """Answers the calls that the filter hands over, one after the other.

    Its own thread is under the filter as well: nothing here may connect, or send to an address.
    """

    def __init__(self, calls: Calls, record: Callable[[str], None]) -> None:
        self._calls, self._record = calls, record
        self._own = _own_addresses()
        self._known: set[str] = set()

    def serve(self, listener: int) -> None:
        """Answer until this process ends; a call whose process is gone has no answer."""
        import fcntl  # not on Windows, which has no filter either

        while True:
            call = bytearray(_CALL.size)
            try:
                fcntl.ioctl(listener, _RECEIVE, call)
            except OSError:
                continue
            number, pid, _flags, name, _arch, _pointer, *arguments = _CALL.unpack(call)
            allowed = self._is_allowed(pid, name, arguments)
            reply = (number, 0, 0, _CONTINUE) if allowed else (number, 0, -errno.ENETUNREACH, 0)
            try:
                fcntl.ioctl(listener, _ANSWER, _REPLY.pack(*reply))
            except OSError:
                continue

    def _is_allowed(self, pid: int, name: int, arguments: list[int]) -> bool:
        try:
            with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
                address = _address(memory.fileno(), self._calls, name, arguments)
        except OSError:
            return True  # it has ended, or gave an address that is none: the system refuses it
        place = remote_place(address, self._own)
        if not place:
            return True
        command = _command(pid)
        if command not in self._known:
            self._known.add(command)
            self._record(f"{command} tried to reach {place}")
        return False


def _address(memory: int, calls: Calls, name: int, arguments: list[int]) -> bytes:
    """Return the socket address of a call, as it is in the memory of its process."""
    match name:
        case calls.connect:
            at, size = arguments[1:3]
        case calls.sendto:
            at, size = arguments[4:6]
        case _:  # both begin with a struct msghdr, which begins with the address
            at, size = struct.unpack("=QI", os.pread(memory, 12, arguments[1]))
    return os.pread(memory, min(size, _LONGEST_ADDRESS), at) if at else b""


def remote_place(address: bytes, own: Collection[str] = ()) -> str:
    """Return where a socket address leads outside this machine; empty for anything else.

    own: addresses of this machine. A name service passes a question on, wherever it is.
    """
    family = int.from_bytes(address[:2], sys.byteorder)
    if family == socket.AF_INET and len(address) >= 8:
        host = ipaddress.ip_address(address[4:8])
    elif family == socket.AF_INET6 and len(address) >= 24:
        six = ipaddress.IPv6Address(address[8:24])
        host = six.ipv4_mapped or six
    else:
        return ""
    port = int.from_bytes(address[2:4], "big")
    if port == NAME_SERVICE_PORT:
        return f"the name service at {host}"
    is_here = host.is_loopback or host.is_unspecified or str(host) in own
    return "" if is_here else f"{host} port {port}"


def _own_addresses() -> set[str]:
    found = psutil.net_if_addrs().values()
    return {one.address.partition("%")[0] for addresses in found for one in addresses}


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return f"process {pid}"
    return shlex.join(words[:-1])[:_SHOWN_CHARACTERS]

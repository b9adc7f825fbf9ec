"""The seccomp filter of the network: which system calls a process hands over to be looked at."""

import ctypes
import errno
import struct
from typing import NamedTuple

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _NOTIFY, _REFUSE = 0x7FFF0000, 0x7FC00000, 0x00050000
_IO_URING_SETUP = 425
_SHORTEST_ADDRESS, _UNIX_ADDRESS = 16, 110
"""Bytes of a struct sockaddr_in and of a whole struct sockaddr_un."""


class Calls(NamedTuple):
    """Numbers of the system calls of an architecture, which `arch` names to the filter."""

    arch: int
    seccomp: int
    connect: int
    sendto: int
    sendmsg: int
    sendmmsg: int


MACHINES = {
    "x86_64": Calls(arch=0xC000003E, seccomp=317, connect=42, sendto=44, sendmsg=46, sendmmsg=307),
    "aarch64": Calls(
        arch=0xC00000B7, seccomp=277, connect=203, sendto=206, sendmsg=211, sendmmsg=269
    ),
}


def program(calls: Calls) -> ctypes.Array[ctypes.c_char]:
    """Return `struct sock_fprog`, and after it the filter.

    An address of another family is recognised by its length where the filter sees it: those of
    netlink (and none, as in `send`) are shorter than any internet address, those of the name
    service cache fill their structure. They must pass: some callers hold the lock of the
    interpreter whose thread would have to answer.
    """

    def line(code: int, value: int, equal: int = 0, other: int = 0) -> bytes:
        return struct.pack("=HBBI", code, equal, other, value)

    def when(number: int, then: bytes) -> bytes:
        return line(_EQUAL, number, 0, len(then) // 8) + then

    def by_length(argument: int) -> bytes:
        return (
            line(_LOAD, arguments_at + 8 * argument)
            + (line(_AT_LEAST, _SHORTEST_ADDRESS, 1, 0) + allow)
            + when(_UNIX_ADDRESS, allow)
            + notify
        )

    number_at, arch_at, arguments_at = 0, 4, 16
    allow, notify = line(_RETURN, _ALLOW), line(_RETURN, _NOTIFY)
    lacking = line(_RETURN, _REFUSE | errno.ENOSYS)
    lines = (
        line(_LOAD, arch_at)
        + line(_EQUAL, calls.arch, 1, 0)
        + lacking
        + line(_LOAD, number_at)
        + when(_IO_URING_SETUP, lacking)  # it would send past the filter
        + when(calls.sendmsg, notify)
        + when(calls.sendmmsg, notify)
        + when(calls.connect, by_length(2))
        + when(calls.sendto, by_length(5))
        + allow
    )
    header = struct.calcsize("@HP")
    made = ctypes.create_string_buffer(bytes(header) + lines)
    struct.pack_into("@HP", made, 0, len(lines) // 8, ctypes.addressof(made) + header)
    return made

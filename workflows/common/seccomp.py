"""A seccomp filter that leaves a process no sockets, or IPv4 and IPv6 only.

Landlock restricts TCP by its port. It does not restrict Unix sockets, UDP, other protocols, or TCP
that connects by sending (MSG_FASTOPEN). Needs only the standard library.
https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import sys
from dataclasses import dataclass
from typing import Final

_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_MODE_FILTER: Final = 2

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_AT_LEAST, _IF_BITS = 0x15, 0x35, 0x45
_ALLOW: Final = 0x7FFF0000
_DENY: Final = 0x00050000 | errno.EACCES

_NUMBER, _ARCHITECTURE = 0, 4
_TYPE_BITS: Final = 0xF
_FAST_OPEN: Final = 0x20000000
_IO_URING_SETUP: Final = 425
#: x86_64 has a second table of system calls, with this bit in their numbers.
_X32: Final = 0x40000000

Instruction = tuple[int, int, int, int]


@dataclass(frozen=True)
class _Machine:
    """The audit architecture, and the numbers of system calls."""

    architecture: int
    socket: int
    socketpair: int
    sendto: int
    sendmsg: int
    sendmmsg: int


_MACHINES: Final = {
    "x86_64": _Machine(0xC000003E, 41, 53, 44, 46, 307),
    "aarch64": _Machine(0xC00000B7, 198, 199, 206, 211, 269),
}


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("operand", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


def is_supported() -> bool:
    """Whether this module has the system calls of this machine."""
    return sys.platform.startswith("linux") and platform.machine() in _MACHINES


def restrict_sockets(*, internet: bool) -> None:
    """Restrict the calling thread, and everything that it starts, for good.

    It can create pairs of connected sockets, and no other socket; with `internet` also TCP and UDP
    over IPv4 and IPv6. Raises OSError, and KeyError where `is_supported` is false.
    """
    instructions = _instructions(_MACHINES[platform.machine()], internet=internet)
    array = (_Instruction * len(instructions))(*(_Instruction(*each) for each in instructions))
    program = _Program(len(instructions), array)
    libc = ctypes.CDLL(None, use_errno=True)
    for option, *arguments in (
        (_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), ctypes.c_ulong(0)),
        (_PR_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), ctypes.byref(program)),
    ):
        if libc.prctl(option, *arguments, ctypes.c_ulong(0), ctypes.c_ulong(0)):
            number = ctypes.get_errno()
            raise OSError(number, f"seccomp: {os.strerror(number)}")


def _argument(index: int) -> Instruction:
    """Load the lower half of an argument of the system call."""
    return (_LOAD, 0, 0, 16 + 8 * index)


def _when(test: int, operand: int, *then: Instruction) -> list[Instruction]:
    return [(test, 0, len(then), operand), *then]


def _instructions(machine: _Machine, *, internet: bool) -> list[Instruction]:
    allow, deny = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _DENY)
    open_socket = [deny]
    if internet:
        open_socket = [
            _argument(0),
            (_IF_EQUAL, 2, 0, socket.AF_INET),
            (_IF_EQUAL, 1, 0, socket.AF_INET6),
            deny,
            # Landlock does not restrict other protocols of connections, such as MPTCP.
            _argument(2),
            (_IF_EQUAL, 3, 0, 0),
            (_IF_EQUAL, 2, 0, socket.IPPROTO_TCP),
            (_IF_EQUAL, 1, 0, socket.IPPROTO_UDP),
            deny,
            allow,
        ]
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, machine.architecture),
        deny,
        (_LOAD, 0, 0, _NUMBER),
    ]
    if platform.machine() == "x86_64":
        program += _when(_IF_AT_LEAST, _X32, deny)
    program += _when(_IF_EQUAL, _IO_URING_SETUP, deny)
    program += _when(_IF_EQUAL, machine.socket, *open_socket)
    # A pair of datagram sockets can send to any Unix socket.
    pair = [_argument(1), (_AND, 0, 0, _TYPE_BITS)]
    pair += [*_when(_IF_EQUAL, socket.SOCK_DGRAM, deny), allow]
    program += _when(_IF_EQUAL, machine.socketpair, *pair)
    for number, flags in ((machine.sendto, 3), (machine.sendmsg, 2), (machine.sendmmsg, 3)):
        send = [_argument(flags), *_when(_IF_BITS, _FAST_OPEN, deny), allow]
        program += _when(_IF_EQUAL, number, *send)
    return [*program, allow]

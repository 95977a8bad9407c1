"""A seccomp filter for what Landlock leaves open to a process with the account of its owner.

Landlock restricts TCP by its port. It does not restrict Unix sockets, UDP, other protocols, or TCP
that connects by sending (MSG_FASTOPEN); modes, owners, times and attributes of files anywhere;
notices of what happens in folders; System V IPC, message queues and keys, which outlive a process;
or limits and priorities of other processes. Needs only the standard library.
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
#: The call returns 0 and does nothing: programs such as git expect that they can change modes.
_IGNORE: Final = 0x00050000

_NUMBER, _ARCHITECTURE = 0, 4
_TYPE_BITS: Final = 0xF
_FAST_OPEN: Final = 0x20000000
_IO_URING_SETUP: Final = 425
#: What stands for a user in setpriority and ioprio_set.
_OF_USERS: Final = (2, 3)
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
    prlimit: int
    scheduling: tuple[int, ...]
    """Calls that change how a process is scheduled; the first argument is its id."""
    priority: tuple[int, int]
    """Calls that set a priority of the process, group or user in their second argument."""
    shared: tuple[int, ...]
    """Calls for what processes of an account share without a path, and for notices of files."""
    metadata: tuple[int, ...]
    """Calls that change modes, owners, times or attributes of files."""


#: fchmodat2, setxattrat, removexattrat and file_setattr have the same numbers everywhere.
_METADATA: Final = (452, 463, 466, 469)
_MACHINES: Final = {
    "x86_64": _Machine(
        *(0xC000003E, 41, 53, 44, 46, 307, 302),
        # sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr
        scheduling=(142, 144, 203, 314),
        # setpriority, ioprio_set
        priority=(141, 251),
        shared=(
            # shmget, shmat, shmctl; semget, semop, semctl, semtimedop
            *(29, 30, 31, 64, 65, 66, 220),
            # msgget, msgsnd, msgrcv, msgctl; mq_open, mq_unlink
            *(68, 69, 70, 71, 240, 241),
            # add_key, request_key, keyctl; inotify_add_watch, fanotify_mark
            *(248, 249, 250, 254, 301),
        ),
        metadata=(
            # chmod, fchmod, fchmodat; chown, fchown, lchown, fchownat
            *(90, 91, 268, 92, 93, 94, 260),
            # utime, utimes, futimesat, utimensat; set and remove an attribute
            *(132, 235, 261, 280, 188, 189, 190, 197, 198, 199, *_METADATA),
        ),
    ),
    "aarch64": _Machine(
        *(0xC00000B7, 198, 199, 206, 211, 269, 261),
        # sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr
        scheduling=(118, 119, 122, 274),
        # setpriority, ioprio_set
        priority=(140, 30),
        shared=(
            # mq_open, mq_unlink; message queues, semaphores and shared memory of System V
            *(180, 181, *range(186, 197)),
            # add_key, request_key, keyctl; inotify_add_watch, fanotify_mark
            *(217, 218, 219, 27, 263),
        ),
        # fchmod, fchmodat; fchownat, fchown; utimensat; set and remove an attribute
        metadata=(52, 53, 54, 55, 88, 5, 6, 7, 14, 15, 16, *_METADATA),
    ),
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


def restrict_thread(*, internet: bool) -> None:
    """Restrict the calling thread, and everything that it starts, for good.

    It can create pairs of connected sockets, and no other socket; with `internet` also TCP and UDP
    over IPv4 and IPv6. Calls that change modes, owners, times or attributes of files, or how other
    processes are scheduled, do nothing. Raises OSError, and KeyError where `is_supported` is false.
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
    ignore = (_RETURN, 0, 0, _IGNORE)
    for number in machine.metadata:
        program += _when(_IF_EQUAL, number, ignore)
    for number in machine.shared:
        program += _when(_IF_EQUAL, number, deny)
    # Process 0 is the caller.
    limits = [_argument(0), (_IF_EQUAL, 1, 0, 0), deny, allow]
    program += _when(_IF_EQUAL, machine.prlimit, *limits)
    schedule = [_argument(0), (_IF_EQUAL, 1, 0, 0), ignore, allow]
    for number in machine.scheduling:
        program += _when(_IF_EQUAL, number, *schedule)
    # User 0 is the account of the caller, so only kinds below that of users are its own.
    for number, users in zip(machine.priority, _OF_USERS, strict=True):
        whose = [
            *(_argument(0), *_when(_IF_AT_LEAST, users, ignore)),
            *(_argument(1), (_IF_EQUAL, 1, 0, 0), ignore, allow),
        ]
        program += _when(_IF_EQUAL, number, *whose)
    # A pair of datagram sockets can send to any Unix socket.
    pair = [_argument(1), (_AND, 0, 0, _TYPE_BITS)]
    pair += [*_when(_IF_EQUAL, socket.SOCK_DGRAM, deny), allow]
    program += _when(_IF_EQUAL, machine.socketpair, *pair)
    for number, flags in ((machine.sendto, 3), (machine.sendmsg, 2), (machine.sendmmsg, 3)):
        send = [_argument(flags), *_when(_IF_BITS, _FAST_OPEN, deny), allow]
        program += _when(_IF_EQUAL, number, *send)
    return [*program, allow]

"""Landlock, the access control of the kernel for files and sockets, through ctypes.

A ruleset restricts the calling thread and every process that it starts afterwards, permanently.
`run_restricted` runs a function in a new thread, so that the worker itself is never restricted;
`restrict_thread` is for a child between fork and exec. Needs only the standard library.
https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from . import openat

T = TypeVar("T")

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_CREATE_RULESET_VERSION: Final = 1
_RULE_PATH_BENEATH: Final = 1
_RULE_NET_PORT: Final = 2
_PR_SET_NO_NEW_PRIVS: Final = 38

_ALL_FILE_RIGHTS: Final = (1 << 16) - 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE, _MAKE_FOLDER, _MAKE_FILE = 0b11 << 4, 1 << 7, 1 << 8
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FILE_ONLY: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ: Final = _READ_FILE | _READ_DIR
_WRITE: Final = _WRITE_FILE | _REMOVE | _MAKE_FOLDER | _MAKE_FILE | _REFER | _TRUNCATE
_BIND_AND_CONNECT_TCP: Final = 0b11
_CONNECT_TCP: Final = 0b10
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS: Final = 0b11


class LandlockError(RuntimeError):
    """The kernel refused to create or to apply a ruleset."""


@dataclass(frozen=True)
class LandlockRules:
    """Absolute paths to execute, read and write below, and TCP ports to connect to.

    Missing paths are ignored. Links are followed only in `execute`: a path to read or write that is
    a link, or below one, is ignored. No port may be bound. The kernel knows ports since version 4
    of Landlock; before, it restricts no TCP.
    """

    execute: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()


class _RulesetAttr(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneathAttr(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


class _NetPortAttr(ctypes.Structure):
    _fields_ = (("allowed_access", ctypes.c_uint64), ("port", ctypes.c_uint64))


# One per process, never invalidated.
@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _syscall(number: int, *arguments: object) -> int:
    result: int = _libc().syscall(ctypes.c_long(number), *arguments)
    return result


# One per process, never invalidated: it depends only on the kernel.
@cache
def abi() -> int:
    """Return the Landlock version of the running kernel; 0 without Landlock."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(_query_version(), 0)


def is_blocked() -> bool:
    """Whether the kernel has Landlock and this process may not use it.

    It was disabled at boot (EOPNOTSUPP), or a seccomp filter refuses the call (EPERM). A kernel
    without Landlock returns ENOSYS.
    """
    if not sys.platform.startswith("linux"):
        return False
    return _query_version() < 0 and ctypes.get_errno() != errno.ENOSYS


def _query_version() -> int:
    nothing, zero = ctypes.c_void_p(None), ctypes.c_size_t(0)
    ask_version = ctypes.c_uint32(_CREATE_RULESET_VERSION)
    return _syscall(_CREATE_RULESET, nothing, zero, ask_version)


def _handled(version: int) -> int:
    rights = _ALL_FILE_RIGHTS
    if version < 5:
        rights &= ~_IOCTL_DEV
    if version < 3:
        rights &= ~_TRUNCATE
    return rights if version >= 2 else rights & ~_REFER


def _check(result: int, what: str) -> int:
    if result < 0:
        raise LandlockError(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def _create(version: int) -> int:
    attr = _RulesetAttr(_handled(version))
    if version >= 4:
        attr.handled_access_net = _BIND_AND_CONNECT_TCP
    if version >= 6:
        attr.scoped = _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    made = _syscall(_CREATE_RULESET, ctypes.byref(attr), ctypes.c_size_t(size), ctypes.c_uint32(0))
    return _check(made, "create ruleset")


def _open_following_links(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _open_without_links(path: str) -> int:
    """Open `path` without following symbolic links, so that no link can be swapped in."""
    with openat.open_parent(Path(path)) as (parent, name):
        return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)


def _allow(
    ruleset: int,
    paths: Iterable[str],
    rights: int,
    opened: Callable[[str], int] = _open_without_links,
) -> None:
    for path in paths:
        try:
            beneath = opened(path)
        except OSError:
            continue
        try:
            mode = os.fstat(beneath).st_mode
            if stat.S_ISLNK(mode):
                continue
            is_folder = stat.S_ISDIR(mode)
            attr = _PathBeneathAttr(rights if is_folder else rights & _FILE_ONLY, beneath)
            _check(_add_rule(ruleset, _RULE_PATH_BENEATH, attr), f"allow {path}")
        finally:
            os.close(beneath)


def _add_rule(ruleset: int, kind: int, attr: ctypes.Structure) -> int:
    return _syscall(
        _ADD_RULE,
        ctypes.c_int(ruleset),
        ctypes.c_int(kind),
        ctypes.byref(attr),
        ctypes.c_uint32(0),
    )


def restrict_thread(rules: LandlockRules) -> None:
    """Restrict the calling thread, and everything that it starts, for good.

    Raises LandlockError.
    """
    handled = _handled(abi())
    ruleset = _create(abi())
    try:
        # /lib is a link on many systems, and only root can change it.
        _allow(ruleset, rules.execute, (_EXECUTE | _READ) & handled, _open_following_links)
        _allow(ruleset, rules.read, _READ & handled)
        _allow(ruleset, rules.write, _WRITE & handled)
        for port in rules.ports if abi() >= 4 else ():
            attr = _NetPortAttr(_CONNECT_TCP, port)
            _check(_add_rule(ruleset, _RULE_NET_PORT, attr), f"allow port {port}")
        prctl = _libc().prctl(_PR_SET_NO_NEW_PRIVS, *(ctypes.c_ulong(n) for n in (1, 0, 0, 0)))
        _check(prctl, "forbid new privileges")
        restricted = _syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
        _check(restricted, "restrict")
    finally:
        os.close(ruleset)


def run_restricted(rules: LandlockRules, function: Callable[[], T]) -> T:
    """Call `function` in a new thread that `rules` restrict; processes it starts inherit them.

    Raises the exceptions of `function`, and LandlockError, also without Landlock (`abi() == 0`):
    the caller decides whether to run without restrictions.
    """
    if not abi():
        raise LandlockError("this kernel has no Landlock")
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            restrict_thread(rules)
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="sandbox-landlock")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]

"""No further user namespaces for this process and all that it starts. Linux only.

In a namespace of its own, a process has every capability over what belongs to it, and reaches code of
the kernel (mounts, packet filters) that is not open to it otherwise. A filter of system calls refuses
to make one. It needs no privilege but `no_new_privs`, and holds at every level of isolation and for
every version of bubblewrap.

Needs the standard library alone, and no other module of ours.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

_ARCHITECTURES: dict[str, tuple[tuple[int, int, int, int], ...]] = {
    # The number of an architecture for the kernel, and of its calls clone, unshare and clone3. The
    # second one of each machine is that of its 32-bit programs.
    "x86_64": ((0xC000003E, 56, 272, 435), (0x40000003, 120, 310, 435)),
    "aarch64": ((0xC00000B7, 220, 97, 435), (0x40000028, 120, 337, 435)),
}
IS_KNOWN = platform.machine() in _ARCHITECTURES
"""Whether there is a filter for this machine."""
_CLONE_NEWUSER = 0x10000000
_LOAD, _EQUAL, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x45, 0x54, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FLAGS_AT = 0, 4, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_X32_BIT_MASK = 0xBFFFFFFF
"""What is left of a number without the bit by which x86_64 marks calls of its x32 variant."""
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def forbid() -> None:
    """Refuse to make user namespaces from now on, in this process and all that it starts: EPERM.

    The flags of clone3 are in memory, where no filter sees them: it does not exist (ENOSYS), and the C
    library uses clone. Needs `no_new_privs`. Raises OSError. Does nothing on a machine without a
    filter (`IS_KNOWN`).
    """
    if not IS_KNOWN:
        return
    program = filter_for(platform.machine())
    libc = ctypes.CDLL(None, use_errno=True)
    given = _Program(len(program) // 8, program)
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(given), 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot refuse user namespaces: {os.strerror(number)}")


def filter_for(machine: str) -> bytes:
    """Return the filter, as instructions for the kernel (struct sock_filter)."""
    program = b""
    for architecture, clone, unshare, clone3 in _ARCHITECTURES[machine]:
        block = [
            (_LOAD, 0, 0, _NUMBER_AT),
            (_AND, 0, 0, _X32_BIT_MASK),
            (_EQUAL, 5, 0, clone3),  # to the refusal as unknown
            (_EQUAL, 1, 0, unshare),
            (_EQUAL, 0, 2, clone),
            (_LOAD, 0, 0, _FLAGS_AT),
            (_ANY_BIT, 2, 0, _CLONE_NEWUSER),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
            (_RETURN, 0, 0, _REFUSE | errno.EPERM),
        ]
        head = [(_LOAD, 0, 0, _ARCHITECTURE_AT), (_EQUAL, 0, len(block), architecture)]
        program += b"".join(struct.pack("=HBBI", *line) for line in [*head, *block])
    return program + struct.pack("=HBBI", _RETURN, 0, 0, _REFUSE | errno.ENOSYS)

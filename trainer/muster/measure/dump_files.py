"""Read the file into which torch dumps its flight recorder when a collective times out.

torch pickles it, and a job may have written anything in its place. So nothing is unpickled: of pickle's
instructions, the few that make plain numbers, texts, lists and dicts are followed here, and any other
is refused. None of them can call, import or look up anything.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

MAX_BYTES = 16 * 2**20
"""Size in bytes of the largest dump that is read: 2,000 collectives with their lines take 1 MiB."""
MAX_INSTRUCTIONS = 2_000_000

_MARK = object()
_CONSTANTS: dict[int, Callable[[], Any]] = {
    ord("N"): lambda: None,
    0x88: lambda: True,
    0x89: lambda: False,
    ord("}"): dict,
    ord("]"): list,
    ord(")"): tuple,
}
_NUMBERS = {ord("K"): "<B", ord("M"): "<H", ord("J"): "<i", ord("G"): ">d"}
_PUTS = {ord("q"): "<B", ord("r"): "<I"}
_GETS = {ord("h"): "<B", ord("j"): "<I"}


def decode(data: bytes) -> Any:
    """Return the plain value that is pickled in `data`. Raises ValueError if it is none, or holds
    more than plain values."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"this dump is larger than {MAX_BYTES // 2**20} MiB")
    try:
        return _decode(memoryview(data))
    except (struct.error, IndexError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"this dump is damaged ({type(error).__name__})") from None


def _decode(data: memoryview) -> Any:
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    at = 0

    def number(form: str) -> Any:
        nonlocal at
        (value,) = struct.unpack_from(form, data, at)
        at += struct.calcsize(form)
        return value

    def text(length: int) -> bytes:
        nonlocal at
        part = bytes(data[at : at + length])
        if len(part) < length:
            raise ValueError("this dump is cut off")
        at += length
        return part

    def since_mark() -> list[Any]:
        start = len(stack) - 1
        while stack[start] is not _MARK:
            start -= 1
            if start < 0:
                raise ValueError("this dump is damaged (no mark)")
        found = stack[start + 1 :]
        del stack[start:]
        return found

    for _ in range(MAX_INSTRUCTIONS):
        code = number("<B")
        if code in _CONSTANTS:
            stack.append(_CONSTANTS[code]())
        elif code in _NUMBERS:
            stack.append(number(_NUMBERS[code]))
        elif code in _PUTS:
            memo[number(_PUTS[code])] = stack[-1]
        elif code in _GETS:
            stack.append(memo[number(_GETS[code])])
        elif code == ord("X"):
            stack.append(text(number("<I")).decode("utf-8", "replace"))
        elif code == 0x8A:
            stack.append(int.from_bytes(text(number("<B")), "little", signed=True))
        elif code == ord("("):
            stack.append(_MARK)
        elif code == ord("t"):
            stack.append(tuple(since_mark()))
        elif code in (0x85, 0x86, 0x87):
            length = code - 0x84
            parts = tuple(stack[-length:])
            del stack[-length:]
            stack.append(parts)
        elif code == ord("a"):
            part = stack.pop()
            _plain(stack[-1], list).append(part)
        elif code == ord("e"):
            parts_of_list = since_mark()
            _plain(stack[-1], list).extend(parts_of_list)
        elif code == ord("s"):
            value, key = stack.pop(), stack.pop()
            _plain(stack[-1], dict)[_key(key)] = value
        elif code == ord("u"):
            items = since_mark()
            target = _plain(stack[-1], dict)
            for key, value in zip(items[::2], items[1::2], strict=True):
                target[_key(key)] = value
        elif code == 0x80:
            number("<B")  # the protocol's version
        elif code == ord("."):
            if len(stack) != 1:
                raise ValueError("this dump is damaged (end)")
            return stack[0]
        else:
            raise ValueError(f"this dump holds more than plain values (instruction {code:#x})")
    raise ValueError("this dump is too long")


def _plain(value: Any, of_type: type) -> Any:
    if type(value) is not of_type:
        raise ValueError("this dump is damaged")
    return value


def _key(key: Any) -> str | int:
    if type(key) not in (str, int):
        raise ValueError("this dump is damaged (key)")
    return key  # type: ignore[no-any-return]

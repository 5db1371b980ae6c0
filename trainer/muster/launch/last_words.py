"""What a process said of its own end: its exception, or the last lines that say something.

Pure. The worker's own process sums up its exception with it (`muster.launch.uncaught`), and the agent
reads the ends of logs with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from muster.log_text import visible

MAX_CHARS = 2_000
MAX_LINES = 3
"""Lines that a reason takes from a log without an exception, and from a message of many lines."""
MAX_LEAVES = 5
"""Exceptions of a group that are named."""
MAX_MESSAGE_CHARS = 64 * 1024
"""Beginning of an exception's message that is looked at."""
SEPARATOR = " · "

_RANK_PREFIX = re.compile(r"^\[rank\d+\]:\s?")
_TRACEBACK = re.compile(r"^Traceback \(most recent", re.MULTILINE)
_OF_ANOTHER = re.compile(r"^Original (?=Traceback \(most recent)", re.MULTILINE)
"""How torch announces the traceback of another process within a message."""
_GROUP_TRACEBACK = re.compile(r"^\s*\+ Exception Group Traceback \(most recent")
_IGNORED = re.compile(r"^Exception ignored (in|while|on)\b|^Error in (atexit|sys)\.")
"""Python's words above a traceback of something that ended nothing."""
_EXCEPTION = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?:: ?(?P<message>.*))?$")
_GROUP_MEMBER = re.compile(r"^[\s|]*\| (?P<line>[A-Za-z_][\w.]*: .*)$")
_GOES_ON = re.compile(r":$|^\d+ validation errors? for \S+$")
"""First lines of messages that mean nothing without the lines below."""
_IN_A_CHILD = re.compile(
    r"^Caught (?P<name>[\w.]+) in (?P<where>DataLoader worker process \d+|replica \d+ on device \d+)"
)
_ADVICE = re.compile(
    r"(?i)^(set the environment variable \w+=|for (further|more) information|for debugging consider"
    r"|for a (complete|full) stack ?trace|compile with `?torch_use_cuda_dsa|to enable traceback see"
    r"|(see|run|try|use) .*--help\b|rerun with |you can suppress this |this may help|hint: )"
)
"""Closing lines of programs that say what to do, and not what went wrong."""
_NOISE = re.compile(
    r"^\s*$"
    r"|^[^\w]*$"  # rules and frames of tables
    r"|Warning: |^\s+warnings\.warn\("
    r"|^\[[WI]\d* .*\]|^[WI]\d{4} "  # of C++ libraries and torchrun, below an error
    r"|^E\d{4} .*torch[./]distributed[./]"
    r"|resource_tracker|destroy_process_group\(\) was not called"
    r"|^\s*(time|host|exitcode|error_file|traceback)\s+: |^\s*rank\s+: \d+ \(local_rank"
    r"|^\S+ FAILED$|^(Root Cause|Failures?)\b.*:$|<NO_OTHER_FAILURES>"
    r"|^torch\.distributed\.elastic\.\S+$"
)
"""Lines that say nothing of an end, torchrun's among them."""
_SAYS_WHY = re.compile(
    r"(?i)\b(error|errors|failed|failure|fatal|cannot|can't|could not|not found|no such|invalid|denied"
    r"|refused|missing|unknown|unable|must|abort(ed)?|segfault|killed)\b|^usage: "
)


def last_words(text: str) -> str:
    """Return the exception that a Python process died of ("ValueError: bad"), else the last lines that
    say something, up to `MAX_LINES` of them; "" if there is none.

    An exception that Python ignored ended nothing and is passed over. Of a group the leaves are named.
    """
    # No pattern here sees a line of a megabyte.
    lines = [_RANK_PREFIX.sub("", line[: MAX_CHARS + 1]).rstrip() for line in text.splitlines()]
    for start in reversed(range(len(lines))):
        found = ""
        if _GROUP_TRACEBACK.match(lines[start]):
            found = _words_of_group(lines[start + 1 :])
        elif _TRACEBACK.match(lines[start]) and not _is_ignored(lines, start):
            found = _words_of_traceback(lines[start + 1 :])
        if found:
            return _cut(found)
    kept = [line.strip() for line in _without_ignored(lines) if not _NOISE.search(line)]
    kept = [line for line in kept if not _ADVICE.match(line)][-MAX_LINES:]
    first = next((i for i, line in enumerate(kept) if _SAYS_WHY.search(line)), None)
    return _cut(SEPARATOR.join(kept if first is None else kept[first:]))


def sum_up(name: str, message: str) -> str:
    """Return an exception in one line, from the name of its type and its message.

    Of a message of many lines the first is taken, and those below it where it means nothing alone. If
    it holds the traceback of another process, that one's exception is taken.
    """
    message = visible(message[:MAX_MESSAGE_CHARS].encode("utf-8", "replace")).decode()
    message = _OF_ANOTHER.sub("", message)
    if _TRACEBACK.search(message):
        inner = last_words(message)
        found = _IN_A_CHILD.match(message.strip())
        return _cut(f"{inner} (in {found['where']})" if found else inner)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    lines = [line for line in lines if not _ADVICE.match(line)]
    if not lines:
        return _cut(name)
    wanted = MAX_LINES if _GOES_ON.search(lines[0]) else 1
    text = lines[0]
    for line in lines[1:wanted]:
        text += ("" if text.endswith(":") else ":") + f" {line}"
    return _cut(f"{name}: {text}")


def sum_up_group(name: str, message: str, leaves: Sequence[str]) -> str:
    """Return a group of exceptions in one line: its leaves, each already in one."""
    shown = "; ".join(leaves[:MAX_LEAVES])
    if len(leaves) > MAX_LEAVES:
        shown += f"; and {len(leaves) - MAX_LEAVES} more"
    return _cut(f"{name}: {message}: {shown}" if shown else f"{name}: {message}")


def _words_of_traceback(lines: Sequence[str]) -> str:
    """Return the exception at the end of a traceback whose first line precedes these; "" if the
    traceback was cut off."""
    for i, line in enumerate(lines):
        if not line or line[0].isspace():
            continue
        match = _EXCEPTION.match(line)
        if match is None:
            continue
        if match["message"] is None and match["name"] in ("None", "During", "The"):
            continue
        below: list[str] = []
        for other in lines[i + 1 :]:
            if _IGNORED.match(other) or (_TRACEBACK.match(other) and not below):
                break
            below.append(other)
        name, message = match["name"], match["message"] or ""
        needs_more = bool(_IN_A_CHILD.match(message) or _GOES_ON.search(message))
        if message == "" and any(x.startswith("-- Process ") for x in below[:3]):
            needs_more = True
        return sum_up(name, "\n".join([message, *below]) if needs_more else message)
    return ""


def _words_of_group(lines: Sequence[str]) -> str:
    """Return what the printed tree of an exception group says: its own line and its leaves."""
    found = [match["line"] for line in lines if (match := _GROUP_MEMBER.match(line))]
    if not found:
        return ""
    groups = [line for line in found if line.endswith(("sub-exceptions)", "sub-exception)"))]
    match = _EXCEPTION.match(found[0])
    leaves = [line for line in found if line not in groups]
    name, message = (match["name"], match["message"] or "") if match else (found[0], "")
    return sum_up_group(name, re.sub(r" \(\d+ sub-exceptions?\)$", "", message), leaves)


def _is_ignored(lines: Sequence[str], start: int) -> bool:
    """Return whether the traceback that begins there is of an exception that ended nothing."""
    return start > 0 and bool(_IGNORED.match(lines[start - 1]))


def _without_ignored(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines without those of ignored exceptions: the announcement, the traceback, its end."""
    skipping = False
    for line in lines:
        if _IGNORED.match(line):
            skipping = True
        elif skipping and line and not line[0].isspace() and not _TRACEBACK.match(line):
            skipping = False  # the exception itself, which is left out, too
        elif not skipping:
            yield line


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"

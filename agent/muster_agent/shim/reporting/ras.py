"""What NCCL itself knows of a job: its RAS threads, which every process of a job runs, answer at a port.

By default all jobs of a node share port 28028, and whoever came first answers. Each attempt has a port
of its own. The answer is text of whoever listens there: it is bounded, and all that is decided by it is
whom the view of the same job names.
"""

from __future__ import annotations

import socket
import time

QUESTION = b"verbose status\n"
CONNECT_TIMEOUT_S = 1.0
ANSWER_TIMEOUT_S = 8.0
"""Seconds for the whole answer: NCCL itself waits up to 5 s for processes that do not answer."""
MAX_ANSWER_BYTES = 64 * 1024


def ask(port: int) -> str:
    """Return the status of the communicators, as NCCL's `ncclras -v` shows it; "" if nobody listens
    there: the job does not use NCCL, or one before 2.24. Blocks."""
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    answer = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=CONNECT_TIMEOUT_S) as connection:
            connection.sendall(QUESTION)
            while len(answer) < MAX_ANSWER_BYTES and (left_s := deadline - time.monotonic()) > 0:
                connection.settimeout(left_s)
                part = connection.recv(MAX_ANSWER_BYTES - len(answer))
                if not part:
                    break
                answer += part
    except OSError:
        pass  # what came until then is of use
    text = answer.decode(errors="replace")
    return "".join(c for c in text if c.isprintable() or c in "\n\t").strip()

"""A job that starts three workers itself. The second ends with CODE; with the argument `raise`, the job then
fails, and otherwise it goes on."""

import json
import os
import socket
import sys
import time
from typing import Any


def work(rank: int) -> int:
    """Report a metric as this rank, and end."""
    shim = socket.socket(socket.AF_UNIX)
    shim.connect(os.environ["MUSTER_REPORT_SOCKET"])

    def say(**message: Any) -> None:
        shim.sendall(json.dumps(message).encode() + b"\n")

    place = {"local_rank": rank, "rank": rank, "world_size": 3, "node_rank": 0, "pid": os.getpid()}
    torch = {"device": "cpu", "backend": "gloo", "torch_version": "2"}
    say(type="hello", **place, **torch, host="h", master_addr="", master_port=0)
    say(
        type="metrics",
        series=[{"name": "x", "steps": [1], "times_ms": [5], "values": [rank]}],
        step=1,
    )
    os._exit(int(os.environ["CODE"]) if rank == 1 else 0)


if __name__ == "__main__":
    pids = [os.fork() or work(rank) for rank in range(3)]
    failed = [pid for pid in pids if os.waitpid(pid, 0)[1]]
    time.sleep(0.3)
    if failed and "raise" in sys.argv:
        raise RuntimeError("a worker has failed")

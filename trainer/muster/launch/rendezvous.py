"""Host the store in which the torchruns of one gang find each other.

Run as `python -m muster.launch.rendezvous --host ADDRESS` by the shim of node 0, before any torchrun
starts. The store binds port 0 on that address and prints the port it got as one JSON line, so
nobody ever guesses a free port and loses the race for it. The port is printed before torch is
imported, which takes seconds: the torchruns import it meanwhile, and whoever connects earlier waits in
the queue of the socket. The store lives until its standard input is closed, which also happens when
the process that started it dies.

The torchruns then join with `--rdzv-conf=is_host=false`.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m muster.launch.rendezvous", description=__doc__)
    parser.add_argument("--host", required=True, help="address of this node that the others reach")
    host = parser.parse_args(arguments).host
    # The workers still need it after a signal to all processes of the node.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    # Bound by us to this one address: by itself the store would listen on every interface.
    listener.bind((host, 0))
    listener.listen(2048)
    port = listener.getsockname()[1]
    sys.stdout.write(json.dumps({"port": port}) + "\n")
    sys.stdout.flush()

    # Only the store is needed; torch.distributed brings it without the rest of torch.nn.
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    store = TCPStore(
        host,
        port,
        is_master=True,
        wait_for_workers=False,
        multi_tenant=True,
        master_listen_fd=listener.detach(),  # the store owns it from here on
    )
    while sys.stdin.buffer.read(4096):
        pass
    del store
    return 0


if __name__ == "__main__":
    sys.exit(main())

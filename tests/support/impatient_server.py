"""`muster-server serve` that waits half a second for the head of a request, for tests of slow ones."""

from muster_server import http_protocol
from muster_server.cli import main

if __name__ == "__main__":
    http_protocol.BoundedHttpProtocol.head_timeout_s = 0.5
    main(["serve"])

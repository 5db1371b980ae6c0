"""Print the server's OpenAPI description as JSON, keys sorted, without starting anything."""

from __future__ import annotations

import json
import sys

from muster_server.api.http.openapi import describe
from muster_server.app import create_app
from muster_server.settings import Settings


def main() -> None:
    document = describe(create_app(Settings(database_url="sqlite://")))
    document["info"]["version"] = "0"  # a release alone must not make the snapshot stale
    json.dump(document, sys.stdout, indent=1, sort_keys=True, ensure_ascii=False)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()

"""A controller that kills itself: `python -m support.chaos.dying_controller TABLE AT SETTINGS`.

It leads at once, as the one before it is dead, and does one tick. From its first statement about the
table on it counts statements and commits, and dies of SIGKILL before the one with the number AT.
SETTINGS are JSON.
"""

import json
import os
import signal
import sys

from sqlalchemy import event

from muster_server.db.engine import Database
from muster_server.loops.runner import Controller
from muster_server.settings import Settings


def main() -> None:
    table, at, given = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    database = Database(given["database_url"])
    controller = Controller(
        database, Settings(**given), holder=f"dies-at-{at}", monotonic=lambda: 1.0
    )
    controller._is_abandoned = lambda session: True  # type: ignore[method-assign]
    number = -1

    def count(what: str) -> None:
        nonlocal number
        if number >= 0 or table in what:
            number += 1
            if number > at:
                os.kill(os.getpid(), signal.SIGKILL)

    def on_statement(connection: object, cursor: object, statement: str, *_: object) -> None:
        if not statement.startswith("BEGIN"):
            count(statement)

    event.listen(database.engine, "before_cursor_execute", on_statement)
    event.listen(database.engine, "commit", lambda _: count("COMMIT"))
    controller.tick()


if __name__ == "__main__":
    main()

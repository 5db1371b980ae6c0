"""Before the parts start: migrate the database and make the secrets the first minutes need.

A process of its own, so that the supervisor need not import the server. Reads a JSON object from
stdin and writes one to stdout; the secrets are nowhere else.

    in   {"cli_token": str | null, "join_uses": int}
    out  {"cli_token": str, "join_token": str | null, "join_token_id": int | null,
          "setup_token": str | null, "sign_in_token": str | null}
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from typing import Any

from sqlalchemy.orm import Session

from muster.launch.lifeline import watch
from muster_server.clock import now as wall_clock
from muster_server.db.engine import Database
from muster_server.db.tables import SchemaMismatch, migrate
from muster_server.services.core.accounts import auth, identity, tokens, users
from muster_server.services.core.audit import Author
from muster_server.settings import WrongSettings, checked_settings

LOCAL_USER = "local"
"""Owner of the command line's token: an administrator without a password, so nobody signs in as it."""
CLI_TOKEN_LIFETIME = dt.timedelta(days=365)
JOIN_TOKEN_LIFETIME = dt.timedelta(hours=1)
JOIN_TRIES = 3
"""Number of joins per token: joining uses one up even if the response is lost."""


def prepare(
    session: Session, *, cli_token: str | None, join_uses: int, now: dt.datetime
) -> dict[str, Any]:
    by = Author("system", now)
    user = auth.find_user(session, LOCAL_USER)
    if user is None:
        user = users.create_user(
            session, username=LOCAL_USER, password_hash=None, role="admin", by=by
        )
    if cli_token is None or identity.principal_of_bearer(session, cli_token, now=now) is None:
        _, cli_token = tokens.create_api_token(
            session,
            user=user,
            name="muster up",
            role="admin",
            own_role="admin",
            lifetime=CLI_TOKEN_LIFETIME,
            by=by,
        )
    join_token = join_token_id = None
    if join_uses > 0:
        row, join_token = tokens.create_join_token(
            session,
            pool="default",
            uses=join_uses * JOIN_TRIES,
            lifetime=JOIN_TOKEN_LIFETIME,
            created_by=user.id,
            by=by,
        )
        join_token_id = row.id
    first_time = auth.setup_required(session)
    return {
        "cli_token": cli_token,
        "join_token": join_token,
        "join_token_id": join_token_id,
        "setup_token": auth.create_setup_token(session, now=now) if first_time else None,
        "sign_in_token": None
        if first_time
        else auth.create_sign_in_token(session, username=None, now=now),
    }


def main() -> None:
    watch(lambda: os._exit(1))
    request = json.load(sys.stdin)
    try:
        database = Database(checked_settings().resolved_database_url())
    except WrongSettings as error:
        sys.exit(str(error))
    try:
        migrate(database)
        with database.transaction() as session:
            answer = prepare(
                session,
                cli_token=request["cli_token"],
                join_uses=request["join_uses"],
                now=wall_clock(),
            )
    except SchemaMismatch as error:
        sys.exit(str(error))  # the supervisor shows the last line
    finally:
        database.dispose()
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()

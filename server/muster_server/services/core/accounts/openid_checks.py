"""Asking an OpenID provider again about the people who have signed in with it."""

from __future__ import annotations

import asyncio

import structlog

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.domain.admission import NoRole, NotAdmitted, admit
from muster_server.errors import Conflict
from muster_server.security.encryption import KeyRing, key_ring_or_none
from muster_server.security.openid import NotBelieved, OpenidProvider, ProviderAway, TakenBack
from muster_server.settings import Settings
from muster_server.threads import Background, run_to_its_end

from . import openid

log = structlog.get_logger(__name__)

ROUND_S = 10.0
"""Time between two looks for sessions that are due, which with `openid.CHECK_EVERY` stays below a minute."""


class OpenidChecks(Background):
    """Ends sessions that the provider does not vouch for any more, and follows roles and groups."""

    def __init__(self, database: Database, provider: OpenidProvider, settings: Settings) -> None:
        self._database = database
        self._provider = provider
        self._settings = settings

    async def _run(self) -> None:
        while True:
            try:
                await run_to_its_end(self.check_due)
            except Exception as error:  # tried again: nothing else may end it
                log.warning("openid_not_checked", why=type(error).__name__)
            await asyncio.sleep(ROUND_S)

    def check_due(self) -> int:
        """Ask about every session that is due, and return their number. A provider that is away changes
        nothing: those who are signed in stay so."""
        keys = key_ring_or_none(self._settings)
        if keys is None:
            return 0
        idle = self._settings.session_idle_s
        with self._database.transaction() as session:
            due = openid.claim_checks(session, idle_s=idle, now=clock.now())
        for check in due:
            try:
                self._check(check, keys)
            except ProviderAway as error:
                log.warning("openid_provider_away", error=str(error))
                break
        return len(due)

    def _check(self, check: openid.DueCheck, keys: KeyRing) -> None:
        rules = openid.rules_of(self._settings)
        try:
            token = openid.opened(check, keys)
            found = self._provider.refresh(token)
            person = admit(found.claims, rules) if found.claims else None
            if person is not None and person.subject != check.subject:
                raise NotBelieved("the provider answers about another person")
        except (NotBelieved, NotAdmitted, Conflict) as error:
            with self._database.transaction() as session:
                openid.end(session, check, str(error), now=clock.now())
                # Anything else may be a mistake in the settings, and must not stop everybody's tokens.
                if isinstance(error, TakenBack | NoRole):
                    openid.refuse(session, check, now=clock.now())
            return
        with self._database.transaction() as session:
            openid.confirm(
                session,
                check,
                person,
                found.refresh_token or token,
                decides_role=rules.decides_roles,
                keys=keys,
                now=clock.now(),
            )

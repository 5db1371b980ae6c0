"""Which silence of a node counts against it.

A node that is silent may be gone, or nobody may be there to hear it. Nobody can ask it, but two things
tell the cases apart. An API server stamps a row as long as it can hear agents and write what they say;
and a control plane that is cut off falls silent for *all* of its nodes at once. So:

* Silence counts up to the moment at which somebody was last heard. Once nobody has been heard for a
  lease, it is counted anew for every node from the moment in which the first one is heard again.
* While an API server is away (its stamp stands still, or all of several nodes that it heard last are
  silent together) the silence of the nodes that it heard last does not count, unless at least as many
  others of them have been heard by another server since: then its agents can go elsewhere, and this
  one would have. It is excused for `server_away_s` at most, and counted anew from the server's return.

Where that is wrong a trial is placed again later than it could be. That is always safe: the deadlines
of `on_disconnect: stop` end before, whatever is decided here.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..messages import Message
from ..states import NodeState
from .views import LifecyclePolicy, LifecycleSnapshot, NodeLease, ServerLease

NO_LEASE = (NodeState.LOST, NodeState.JOINING)
"""States in which nothing is expected to be heard of a node."""


@dataclass(frozen=True, kw_only=True)
class Hearing:
    """What is known of who could hear whom, at one moment."""

    now: dt.datetime
    policy: LifecyclePolicy
    leader_since: dt.datetime
    heard_at: dt.datetime | None
    """Time when any node was last heard; None if there is none."""
    since: dt.datetime
    """Since when somebody has always been heard, but for the silence that lasts now."""
    proven_at: Mapping[str, dt.datetime]
    """API servers that are not known to be away → when they last proved that they hear their
    nodes."""
    away: Mapping[str, dt.datetime]
    """API servers that are away and excuse their nodes → since when."""
    returned: Mapping[str, dt.datetime]
    """API servers that have been away before → since when they hear again."""
    held_until: dt.datetime
    """Until then a poll may hang at an API server that is away, although its agent is heard by another
    one."""

    @property
    def is_new(self) -> bool:
        """Who leads has not led for long, and may not have noticed yet that nobody is heard."""
        return (self.now - self.leader_since).total_seconds() < self.policy.takeover_grace_s

    @property
    def is_silent(self) -> bool:
        """Nobody is heard: the control plane itself may be cut off."""
        return self.heard_at is not None and _is_over(self.heard_at, self.now, self.policy)

    def counted_s(self, node: NodeLease) -> float:
        """Return how long this node has been silent while somebody could hear it, in seconds: 0 or
        more."""
        until = self.heard_at or self.now
        since = max(node.last_seen_at, self.leader_since, self.since)
        if (away_since := self.away.get(node.heard_by)) is not None:
            since = max(since, away_since + dt.timedelta(seconds=self.policy.server_away_s))
        else:
            since = max(since, self.returned.get(node.heard_by, since))
            until = min(until, self.proven_at.get(node.heard_by, until))
        return max(0.0, (until - since).total_seconds())

    def waited_s(self, since: dt.datetime, nodes: Iterable[NodeLease | None]) -> float:
        """Return how long something has been waited for that these nodes would have reported, in
        seconds.

        Time in which one of them could not be heard, or not be told what to do, does not count, nor
        does the time after an outage in which a report may hang. It is 0 while one of them is silent,
        because a node that is gone becomes LOST, and while the leader is new.
        """
        if self.is_silent or self.is_new:
            return 0.0
        held = dt.timedelta(seconds=self.policy.held_report_s)
        for node in nodes:
            if node is None:
                continue
            if node.state == NodeState.SUSPECT:
                return 0.0
            ended_at = max(self.since, self.returned.get(node.heard_by, self.since))
            if ended_at > self.leader_since:  # a take-over has a grace of its own
                ended_at += held
            since = max(since, self.held_until, ended_at)
        return max(0.0, (self.now - since).total_seconds())

    def why_silent(self, node: NodeLease) -> Message:
        """Return why a node is SUSPECT, and what follows."""
        at = moment(node.last_seen_at)
        if self.is_silent and self.heard_at is not None:
            return Message("node.nobody_heard", at=moment(self.heard_at))
        if node.heard_by in self.away:
            minutes = round(self.policy.server_away_s / 60, 1)
            return Message("node.server_away", at=at, server=node.heard_by, minutes=minutes)
        return Message("node.not_heard", at=at, seconds=round(self.policy.node_lost_s, 1))

    def why_lost(self, node: NodeLease) -> Message:
        seconds = round(self.counted_s(node))
        return Message("node.lost", at=moment(node.last_seen_at), seconds=seconds)


def hearing_of(
    snapshot: LifecycleSnapshot, *, now: dt.datetime, policy: LifecyclePolicy
) -> Hearing:
    """Return who could hear whom, for a snapshot whose times are all on one clock. The time it
    takes is proportional to the number of nodes."""
    living = [node for node in snapshot.nodes if node.state not in NO_LEASE]
    num_by_server = Counter(node.heard_by for node in living)
    heard_at: dict[str, dt.datetime] = {}
    for node in living:
        if node.heard_by not in heard_at or node.last_seen_at > heard_at[node.heard_by]:
            heard_at[node.heard_by] = node.last_seen_at
    away: dict[str, dt.datetime] = {}
    returned: dict[str, dt.datetime] = {}
    proven: dict[str, dt.datetime] = {}
    held_until = snapshot.leader_since
    for server in snapshot.servers:
        num_here = num_by_server[server.name]
        proofs = _proofs_of_hearing(server, heard_at.get(server.name), num_here)
        since = max((at for at in proofs if _is_over(at, now, policy)), default=None)
        if since is not None:
            held_until = max(held_until, since + dt.timedelta(seconds=policy.held_poll_s))
        elif proofs:
            proven[server.name] = min(proofs)
        if since is not None and server.num_left < num_here:
            away[server.name] = since
        elif server.returned_at is not None:
            returned[server.name] = server.returned_at
    # Any report of a LOST node changes its state, so it was last heard before it was lost.
    last = max((node.last_seen_at for node in snapshot.nodes), default=None)
    return Hearing(
        now=now,
        policy=policy,
        leader_since=snapshot.leader_since,
        heard_at=last,
        since=max(snapshot.leader_since, snapshot.hearing_since or snapshot.leader_since),
        proven_at=proven,
        away=away,
        returned=returned,
        held_until=held_until,
    )


def _proofs_of_hearing(
    server: ServerLease, heard_at: dt.datetime | None, num_nodes: int
) -> list[dt.datetime]:
    """Return the last moments that prove that a server hears its agents, each by evidence of its own;
    empty if nothing tells. It is away once one of them is long ago."""
    proofs: list[dt.datetime] = []
    if server.stamped_at is not None:
        proofs.append(max(server.stamped_at, heard_at or server.stamped_at))
    # A single silent node is gone; several that fall silent at once are cut off.
    if num_nodes > 1 and heard_at is not None:
        proofs.append(heard_at)
    return proofs


def _is_over(at: dt.datetime, now: dt.datetime, policy: LifecyclePolicy) -> bool:
    return (now - at).total_seconds() > policy.away_after_s


def moment(at: dt.datetime) -> str:
    """Return a time of day for people. Of a moment days ago the date is in the node's events."""
    return f"{at.astimezone(dt.UTC):%H:%M:%S} UTC"

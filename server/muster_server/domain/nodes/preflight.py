"""How a preflight goes on: what the nodes of a gang try together, stage by stage.

listen → connect → reduce. Every node takes part in every stage, and a stage begins for all of them
when the one before has been reported by all. So a failure ends it before anybody waits for a node
that cannot come, and it is named by the two nodes between which it happened.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from muster.wire import PreflightReport

Stage = Literal["listen", "connect", "reduce"]

STAGE_TIMEOUT_S: Mapping[str, float] = {"listen": 60.0, "connect": 180.0, "reduce": 120.0}
"""Until every node has reported it. connect imports torch, which a cold shared disk makes slow."""
REDUCE_TIMEOUT_PER_NODE_S = 20.0
"""Added for each node: pairs are tried in as many rounds."""
MAX_NODES = 64
MAX_NAMED = 4
"""Findings spelled out in the verdict; all of them are in the reports."""


@dataclass(frozen=True, kw_only=True)
class PreflightMember:
    node_id: str
    node_name: str
    rank: int
    reports: Mapping[str, PreflightReport] = field(default_factory=dict)
    """Reports by stage, as far as they have arrived."""


@dataclass(frozen=True, kw_only=True)
class PreflightView:
    id: int
    stage: Stage
    stage_since: dt.datetime
    members: tuple[PreflightMember, ...]
    """Members by rank."""


@dataclass(frozen=True, kw_only=True)
class NextStage:
    stage: Stage
    reason: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    ok: bool
    reason: str
    """One sentence; of a failure it names the nodes, or the pairs of nodes."""
    node_ids: tuple[str, ...] = ()
    """The nodes a failure is about."""


def advance(view: PreflightView, now: dt.datetime) -> NextStage | Verdict | None:
    """Return what follows from the reports so far; None while others are missing."""
    missing = [m for m in view.members if view.stage not in m.reports]
    if missing:
        return _give_up(view, missing, now)
    if view.stage == "listen":
        # Problems wait: the other nodes first try an address that cannot be listened on, so that
        # the verdict also says what they see of it.
        if not any(_is_deaf(m) for m in view.members):
            return NextStage(stage="connect", reason="every node listens")
        return _fail(view)
    if _findings(view):
        return _fail(view)
    if view.stage == "connect" and len(view.members) > 1:
        without = [m.node_name for m in view.members if not m.reports["connect"].torch_version]
        if not without:
            return NextStage(stage="reduce", reason="all connections work")
        names = ", ".join(without)
        reason = f"{_tried(view)}; no all-reduce was tried: torch is not installed on {names}"
        return Verdict(ok=True, reason=reason)
    return Verdict(ok=True, reason=_tried(view))


def stage_timeout_s(view: PreflightView) -> float:
    """Return how long the present stage may take, in seconds."""
    extra_s = REDUCE_TIMEOUT_PER_NODE_S * len(view.members) if view.stage == "reduce" else 0.0
    return STAGE_TIMEOUT_S[view.stage] + extra_s


def _give_up(
    view: PreflightView, missing: list[PreflightMember], now: dt.datetime
) -> Verdict | None:
    limit_s = stage_timeout_s(view)
    if (now - view.stage_since).total_seconds() <= limit_s:
        return None
    what = {"listen": "begin", "connect": "connect", "reduce": "finish the all-reduce"}
    names = ", ".join(m.node_name for m in missing)
    return Verdict(
        ok=False,
        reason=f"{names} did not {what[view.stage]} within {limit_s:.0f} s",
        node_ids=tuple(m.node_id for m in missing),
    )


def misfits(view: PreflightView) -> tuple[str, ...]:
    """Return the IDs of as few nodes as must be left out so that none of the findings of a failed
    preflight would remain. The node with the most findings comes first; of equals, the one with the
    highest rank."""
    silent = [m.node_id for m in view.members if view.stage not in m.reports]
    left = [finding.node_ids for finding in _findings(view)]
    left += [(node_id,) for node_id in silent]
    left += [(m.node_id,) for m in view.members if _is_deaf(m)]
    chosen: list[str] = []
    while left:
        worst = max(
            view.members, key=lambda m: (sum(m.node_id in ids for ids in left), m.rank)
        ).node_id
        chosen.append(worst)
        left = [ids for ids in left if worst not in ids]
    return tuple(chosen)


def is_of_network(view: PreflightView) -> bool:
    """Return whether a node could not listen on its address or not reach another one."""
    return any(_is_deaf(m) for m in view.members) or any(
        link.message for m in view.members for report in m.reports.values() for link in report.links
    )


def _is_deaf(member: PreflightMember) -> bool:
    return "listen" in member.reports and member.reports["listen"].port == 0


@dataclass(frozen=True, kw_only=True)
class _Finding:
    text: str
    node_ids: tuple[str, ...]


def _findings(view: PreflightView) -> list[_Finding]:
    """Return what went wrong in any stage: between two nodes first, then on single ones."""
    names = {m.rank: m for m in view.members}
    links, own = [], []
    for member in view.members:
        for report in member.reports.values():
            for link in report.links:
                other = names.get(link.rank)
                if link.message and other is not None:
                    text = f"{member.node_name} → {other.node_name}: {link.message}"
                    links.append(_Finding(text=text, node_ids=(member.node_id, other.node_id)))
            for problem in report.problems:
                text = f"{member.node_name}: {problem}"
                own.append(_Finding(text=text, node_ids=(member.node_id,)))
    return links + own


def _fail(view: PreflightView) -> Verdict:
    findings = _findings(view) or [
        _Finding(text=f"{m.node_name}: it could not listen", node_ids=(m.node_id,))
        for m in view.members
        if m.reports["listen"].port == 0
    ]
    shown = "; ".join(finding.text for finding in findings[:MAX_NAMED])
    more = len(findings) - MAX_NAMED
    return Verdict(
        ok=False,
        reason=f"{shown}; and {more} more" if more > 0 else shown,
        node_ids=tuple(dict.fromkeys(i for finding in findings for i in finding.node_ids)),
    )


def _tried(view: PreflightView) -> str:
    """Return what went well, with figures and how many connections they cover."""
    num_nodes = len(view.members)
    if num_nodes == 1:
        return "disk and devices are in order"
    trips = [link.ms for m in view.members for link in m.reports["connect"].links if link.ms]
    words = f"all {num_nodes * (num_nodes - 1)} connections between {num_nodes} nodes work"
    if trips:
        words += f" (round trip {_ms(min(trips))} to {_ms(max(trips))} ms)"
    reduced = [
        report.reduce_ms
        for m in view.members
        if (report := m.reports.get("reduce")) is not None and report.reduce_ms is not None
    ]
    if reduced:
        words += f"; an all-reduce of 1 MiB over gloo takes {_ms(max(reduced))} ms"
    return words


def _ms(value: float) -> str:
    """Two digits, and all of those before the point."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"

"""What follows from what nodes report when they try each other."""

import datetime as dt
import itertools
from dataclasses import replace

import pytest

from muster.wire import LinkReport, PreflightReport
from muster_server.domain.nodes.preflight import (
    MAX_NAMED,
    NextStage,
    PreflightMember,
    PreflightView,
    Verdict,
    advance,
    stage_timeout_s,
)

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def link(rank, message="", ms=1.0):
    return LinkReport(rank=rank, message=message, ms=None if message else ms)


def listen(**more):
    return PreflightReport(**({"id": 1, "stage": "listen", "host": "h", "port": 1} | more))


def connect(*links, torch_version="2.9", **more):
    return PreflightReport(
        id=1, stage="connect", links=list(links), torch_version=torch_version, **more
    )


def reduce(*links, **more):
    return PreflightReport(
        **({"id": 1, "stage": "reduce", "links": list(links), "reduce_ms": 3.0} | more)
    )


def view(stage, *reports, since_s=0.0):
    """reports: of each node those it has sent."""
    return PreflightView(
        id=1,
        stage=stage,
        stage_since=NOW - dt.timedelta(seconds=since_s),
        members=tuple(
            PreflightMember(
                node_id=f"id-{rank}",
                node_name=f"n{rank}",
                rank=rank,
                reports={r.stage: r for r in sent},
            )
            for rank, sent in enumerate(reports)
        ),
    )


def test_a_stage_begins_when_all_have_reported_the_one_before():
    assert advance(view("listen", [listen()], []), NOW) is None
    assert advance(view("listen", [listen()], [listen()]), NOW) == NextStage(
        stage="connect", reason="every node listens"
    )
    assert advance(view("connect", [listen(), connect(link(1))], [listen()]), NOW) is None
    done = [[listen(), connect(link(1 - rank))] for rank in range(2)]
    assert advance(view("connect", *done), NOW).stage == "reduce"


def test_all_is_well():
    nodes = [[listen(), connect(link(1 - r, ms=0.5)), reduce(link(1 - r))] for r in range(2)]
    verdict = advance(view("reduce", *nodes), NOW)
    assert verdict == Verdict(
        ok=True,
        reason="all 2 connections between 2 nodes work (round trip 0.5 to 0.5 ms); "
        "an all-reduce of 1 MiB over gloo takes 3 ms",
    )


def test_one_node_alone_has_nobody_to_connect_to():
    assert advance(view("listen", [listen()]), NOW).stage == "connect"
    verdict = advance(view("connect", [listen(), connect()]), NOW)
    assert verdict == Verdict(ok=True, reason="disk and devices are in order")


def test_without_torch_the_connections_count_and_that_is_said():
    nodes = [[listen(), connect(link(1), torch_version="")], [listen(), connect(link(0))]]
    verdict = advance(view("connect", *nodes), NOW)
    assert verdict.ok
    assert verdict.reason.endswith("no all-reduce was tried: torch is not installed on n0")


@pytest.mark.parametrize("bad", list(itertools.permutations(range(3), 2)))
def test_a_failing_connection_names_its_pair_in_its_direction(bad):
    source, target = bad
    nodes = [
        [
            listen(),
            connect(*(link(o, "timed out" if (r, o) == bad else "") for o in range(3) if o != r)),
        ]
        for r in range(3)
    ]
    verdict = advance(view("connect", *nodes), NOW)
    assert verdict == Verdict(
        ok=False,
        reason=f"n{source} → n{target}: timed out",
        node_ids=(f"id-{source}", f"id-{target}"),
    )


def test_pairs_come_before_what_is_wrong_with_one_node():
    nodes = [
        [listen(), connect(link(1, "no route"))],
        [listen(problems=["it advertises a wrong address"]), connect(link(0))],
    ]
    assert advance(view("connect", *nodes), NOW).reason == (
        "n0 → n1: no route; n1: it advertises a wrong address"
    )


def test_many_findings_are_counted():
    nodes = [
        [listen(), connect(*(link(o, "closed") for o in range(4) if o != r))] for r in range(4)
    ]
    verdict = advance(view("connect", *nodes), NOW)
    assert verdict.reason.endswith(f"; and {12 - MAX_NAMED} more")
    assert verdict.node_ids == ("id-0", "id-1", "id-2", "id-3")


def test_one_that_cannot_listen_at_all_ends_it():
    verdict = advance(view("listen", [listen()], [listen(port=0, problems=["no sockets"])]), NOW)
    assert (verdict.ok, verdict.reason) == (False, "n1: no sockets")
    silent = advance(view("listen", [listen()], [listen(port=0)]), NOW)
    assert silent.reason == "n1: it could not listen"


@pytest.mark.parametrize(
    ("stage", "words"),
    [("listen", "begin"), ("connect", "connect"), ("reduce", "finish the all-reduce")],
)
def test_one_that_does_not_answer_is_named_in_time(stage, words):
    before = {"listen": [], "connect": [listen()], "reduce": [listen(), connect(link(1))]}[stage]
    own = {"listen": listen(), "connect": connect(link(1)), "reduce": reduce(link(1))}[stage]
    fresh = view(stage, [*before, own], before)
    limit_s = stage_timeout_s(fresh)
    assert advance(view(stage, [*before, own], before, since_s=limit_s), NOW) is None
    verdict = advance(view(stage, [*before, own], before, since_s=limit_s + 1), NOW)
    assert not verdict.ok
    assert verdict.reason == f"n1 did not {words} within {limit_s:.0f} s"
    assert verdict.node_ids == ("id-1",)


def test_a_failing_all_reduce_names_its_pair():
    nodes = [
        [
            listen(),
            connect(link(1)),
            reduce(link(1, "the all-reduce failed: timed out"), reduce_ms=None),
        ],
        [listen(), connect(link(0)), reduce(link(0), reduce_ms=None)],
    ]
    verdict = advance(view("reduce", *nodes), NOW)
    assert (verdict.ok, verdict.reason) == (False, "n0 → n1: the all-reduce failed: timed out")


def test_long_times_are_said_in_digits():
    nodes = [[listen(), connect(link(1 - r, ms=12.4)), reduce(link(1 - r))] for r in range(2)]
    nodes = [[*two, replace(third, reduce_ms=171.4)] for *two, third in nodes]
    assert "takes 171 ms" in advance(view("reduce", *nodes), NOW).reason
    assert "round trip 12 to 12 ms" in advance(view("reduce", *nodes), NOW).reason

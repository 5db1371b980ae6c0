"""Which nodes a trial keeps away from, for how long, and what it says of that."""

import datetime as dt

from muster.wire import LinkReport, NodeFacts, PreflightReport
from muster_server.domain.lifecycle.avoidance import (
    AVOID_MAX_S,
    AVOID_S,
    MAX_AVOIDED,
    Avoided,
    avoid,
    avoiding,
    from_plain,
    to_plain,
)
from muster_server.domain.nodes.consistency import find_mismatches, minority
from muster_server.domain.nodes.preflight import PreflightMember, PreflightView, misfits
from muster_server.domain.scheduling.resources import Request

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def after(seconds):
    return NOW + dt.timedelta(seconds=seconds)


def test_a_node_is_avoided_for_longer_each_time_up_to_a_limit():
    known, spans, news = (), [], []
    for _ in range(6):
        known, is_new = avoid(known, ["n2"], "no route", now=NOW)
        spans.append((known[0].until - NOW).total_seconds())
        news.append(is_new)
    assert spans == [AVOID_S, 2 * AVOID_S, 4 * AVOID_S, 8 * AVOID_S, AVOID_MAX_S, AVOID_MAX_S]
    assert news == [True, False, False, False, False, False]


def test_only_so_many_nodes_are_remembered():
    known, _ = avoid((), [f"n{i}" for i in range(MAX_AVOIDED)], "no route", now=NOW)
    more, is_new = avoid(known, ["another"], "no route", now=NOW)
    assert (more, is_new) == (known, False)


def test_nothing_in_the_way_is_nothing_new():
    assert avoid((), [], "no route", now=NOW) == ((), False)


def test_a_request_leaves_them_out_says_why_and_until_when():
    request = Request(slots=2, nodes=2)
    known = (
        Avoided(node="n2", until=after(60), times=1, reason="no route"),
        Avoided(node="n1", until=after(90), times=1, reason="other torch"),
        Avoided(node="n0", until=after(-1), times=1, reason="long ago"),
    )
    changed, until = avoiding(request, known, now=NOW)
    assert changed.avoid_nodes == ("n1", "n2")
    assert until == after(60)
    assert [part.english for part in changed.describe()] == [
        "2 cpu slots in pool default",
        "on exactly 2 nodes",
        "avoiding n1, n2 (until 12:01:30 UTC: other torch)",
    ]
    assert avoiding(request, known, now=after(90)) == (request, None)


def test_it_is_kept_in_a_row_of_the_database():
    known, _ = avoid((), ["n1", "n2"], "no route", now=NOW)
    assert from_plain(to_plain(known)) == known


# ---------------------------------------------------------------- which ones


def member(rank, links=(), **reports):
    connect = PreflightReport(
        id=1,
        stage="connect",
        links=[LinkReport(rank=other, message="refused", ms=None) for other in links],
    )
    listen = PreflightReport(id=1, stage="listen", port=1)
    known = {"listen": listen, "connect": connect} | reports
    return PreflightMember(
        node_id=f"id{rank}",
        node_name=f"n{rank}",
        rank=rank,
        reports={stage: report for stage, report in known.items() if report is not None},
    )


def view(*members, stage="connect"):
    return PreflightView(id=1, stage=stage, stage_since=NOW, members=members)


def test_of_a_pair_the_one_of_the_higher_rank_is_left_out():
    assert misfits(view(member(0, [1]), member(1, [0]))) == ("id1",)


def test_of_several_pairs_the_node_they_have_in_common_is():
    # 0 reaches nobody, and nobody reaches it.
    assert misfits(view(member(0, [1, 2]), member(1, [0]), member(2, [0]))) == ("id0",)


def test_pairs_with_nothing_in_common_lose_a_node_each():
    members = member(0, [1]), member(1), member(2, [3]), member(3)
    assert misfits(view(*members)) == ("id3", "id1")


def test_who_says_nothing_cannot_listen_or_has_a_problem_is_left_out():
    assert misfits(view(member(0), member(1, connect=None))) == ("id1",)
    deaf = PreflightReport(id=1, stage="listen", port=0)
    assert misfits(view(member(0, listen=deaf), member(1))) == ("id0",)
    ill = PreflightReport(id=1, stage="listen", port=1, problems=["its disk is full"])
    assert misfits(view(member(0, listen=ill), member(1))) == ("id0",)


def test_those_with_another_version_than_most_are_left_out():
    def facts(torch, python="3.11.7"):
        return NodeFacts(python_version=python, torch_version=torch, muster_version="1")

    found = find_mismatches({"a": facts("2.8"), "b": facts("2.9"), "c": facts("2.9", "3.12.1")})
    assert set(minority(found)) == {"a", "c"}
    assert minority(find_mismatches({"a": facts("2.8"), "b": facts("2.9")})) == ("b",)
    assert minority(find_mismatches({"a": facts("2.9"), "b": facts("2.9")})) == ()

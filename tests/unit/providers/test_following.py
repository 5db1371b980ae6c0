"""One pilot, by what its batch system lists and what its node shows."""

import datetime as dt

import pytest

from muster_server.domain.providers import (
    Pilot,
    PilotState,
    Seen,
    follow,
    reason_of,
    why_keep_off,
)
from muster_server.domain.providers.options import InvalidOption, options_of

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def pilot(state, *, age_s=10.0, **changes):
    since = NOW - dt.timedelta(seconds=age_s)
    fields = {"ref": "7"} | changes
    return Pilot(id="p", state=PilotState(state), since=since, **fields)


def up(**changes):
    return pilot("up", **({"was_up": True, "has_node": True, "is_heard": True} | changes))


def seen(state, reason="", **changes):
    return Seen(ref="7", state=state, reason=reason, **changes)


def after(the_pilot, what=None, *, is_listed=False):
    change = follow(the_pilot, what, is_listed=is_listed, now=NOW)
    return change and (str(change.after), change.reason, change.is_failure)


def test_a_job_waits_runs_and_joins():
    assert after(pilot("submitting"), seen("pending", "Priority")) == (
        "pending", "other jobs are ahead of it (Priority)", False,
    )  # fmt: skip
    assert after(pilot("pending"), seen("running")) == ("starting", "", False)
    assert after(pilot("starting", has_node=True), seen("running")) == ("up", "", False)
    assert after(up(), seen("running")) is None


def test_a_registered_node_counts_even_if_no_listing_arrives():
    assert after(pilot("pending", has_node=True)) == ("up", "", False)


def test_a_listing_that_fails_says_nothing():
    for state in ("submitting", "pending", "starting", "up", "ending"):
        assert (
            after(pilot(state, age_s=1e5, was_up=state in ("up", "ending"), has_node=state == "up"))
            is None
        )


def test_two_listings_without_it_and_no_heartbeat_end_a_pilot():
    silent = up(is_heard=False)
    first = follow(silent, None, is_listed=True, now=NOW)
    assert (first.after, first.missing_since) == ("up", NOW)
    long_ago = NOW - dt.timedelta(seconds=61)
    lately = NOW - dt.timedelta(seconds=59)
    assert after(up(is_heard=False, missing_since=lately), is_listed=True) is None
    assert after(up(is_heard=False, missing_since=long_ago), is_listed=True)[0] == "ended"
    assert after(up(missing_since=long_ago), is_listed=True) is None, "it is heard"
    found = follow(
        up(is_heard=False, missing_since=long_ago), seen("running"), is_listed=False, now=NOW
    )
    assert (found.after, found.missing_since) == ("up", None)


def test_a_heartbeat_counts_more_than_the_word_of_the_batch_system():
    assert after(up(), seen("ended", "NodeFail")) is None
    assert after(up(is_heard=False), seen("ended", "NodeFail")) == (
        "ended", "its machine failed (NodeFail)", False,
    )  # fmt: skip


def test_a_pilot_that_has_left_has_ended():
    left = up(has_node=False, is_heard=False)
    assert after(left, is_listed=True) == ("ended", "its node has left the cluster", False)


@pytest.mark.parametrize("state", ["submitting", "pending", "starting"])
def test_a_pilot_that_came_and_left_between_two_looks_is_not_on_its_way_and_no_failure(state):
    been = pilot(state, was_up=True)
    assert not been.is_coming
    assert after(been, seen("running")) == ("ending", "its node has left the cluster", False)
    assert after(been, seen("ended", "COMPLETED")) == (
        "ended", "its job is complete (COMPLETED)", False,
    )  # fmt: skip


def test_how_the_job_of_a_pilot_that_has_left_ended_is_still_asked_for():
    left = up(has_node=False, is_heard=False)
    change = follow(left, seen("running"), is_listed=False, now=NOW)
    assert (change.after, change.reason, change.is_leaving) == (
        "ending", "its node has left the cluster", True,
    )  # fmt: skip
    leaving = pilot("ending", was_up=True, reason=change.reason)
    assert after(leaving, seen("running")) is None
    assert after(leaving, seen("ended", "COMPLETED")) == (
        "ended", "its job is complete (COMPLETED)", False,
    )  # fmt: skip
    assert after(leaving, seen("ended", "TIMEOUT", exit_code="0, signal 15")) == (
        "ended", "its wall time was over (TIMEOUT), exit code 0, signal 15", False,
    )  # fmt: skip


def test_a_pilot_on_a_node_that_its_site_drains_takes_nothing_new():
    drained = seen("running", node_problem="n1 is draining (disk)")
    assert why_keep_off(up(), drained) == "n1 is draining (disk)"
    assert why_keep_off(up(is_open=False), drained) is None, "once is enough"
    assert why_keep_off(up(), seen("running")) is None
    assert after(up(), drained) is None, "what runs there goes on"


def test_what_never_came_up_is_a_failure():
    assert after(pilot("pending"), seen("ended", "NonZeroExitCode")) == (
        "ended", "its agent could not run (NonZeroExitCode)", True,
    )  # fmt: skip
    assert after(pilot("starting", age_s=301), seen("running"))[::2] == ("ending", True)
    assert after(pilot("starting", age_s=299), seen("running")) is None


def test_a_job_that_can_never_start_is_given_up_at_once():
    state, reason, is_failure = after(pilot("pending"), seen("pending", "PartitionTimeLimit"))
    assert (state, is_failure) == ("ending", True)
    assert reason == "its wall time is longer than the partition allows (PartitionTimeLimit)"


def test_a_lost_answer_is_submitted_again_only_when_the_job_is_not_listed():
    assert after(pilot("submitting", age_s=61, ref=""), is_listed=False) is None
    assert after(pilot("submitting", age_s=59, ref=""), is_listed=True) is None
    assert after(pilot("submitting", age_s=61, ref=""), is_listed=True) == ("wanted", "", False)


def test_a_canceled_pilot_ends_when_that_is_confirmed():
    assert after(pilot("ending"), seen("running")) is None
    assert after(pilot("ending"), seen("ended", "its job was canceled")) == ("ended", None, False)


@pytest.mark.parametrize(
    ("word", "kind", "text"),
    [
        ("(Priority)", "waits", "other jobs are ahead of it (Priority)"),
        ("None", "waits", ""),
        ("QOSMaxGRESPerUser", "waits", "a limit of the account or its quality of service (QOSMaxGRESPerUser)"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "waits", "the nodes it asks for are not available (ReqNodeNotAvail, UnavailableNodes:n1)"),
        ("BadConstraints", "wrong", "no node has what it asks for (BadConstraints)"),
        ("JobHeldUser", "held", "held by its user (JobHeldUser)"),
        ("SomethingNew", "waits", "SomethingNew"),
    ],
)  # fmt: skip
def test_reasons_are_told_in_our_words_and_theirs(word, kind, text):
    found = reason_of(word)
    assert (found.kind, found.text) == (kind, text)


GOOD = {
    "server_url": "http://10.0.0.5:8470",
    "folder": "/home/ann/muster",
    "agent": "/opt/bin/muster-agent",
}


def test_options_have_defaults():
    options = options_of({**GOOD, "partition": "a100", "gres": "gpu:a100:4"})
    assert options.name == "Slurm partition a100"
    assert options.storage == "/home/ann/muster/storage"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"partition": "a;rm -rf"}, "partition: 'a;rm -rf' does not work"),
        ({"account": "--uid=0"}, "account: '--uid=0' does not work"),
        ({"host": "-oProxyCommand=x"}, "host: "),
        ({"folder": "/home/$(id)"}, "folder: "),
        ({"folder": ""}, "folder: is missing; write an absolute path"),
        ({"colour": "red"}, "colour: is no option of this provider; there are server_url"),
        ({"server_url": "ftp://x"}, "server_url: "),
    ],
)
def test_an_option_that_a_shell_could_misread_is_refused(changes, problem):
    with pytest.raises(InvalidOption) as error:
        options_of({**GOOD, **changes})
    assert str(error.value).startswith(problem)

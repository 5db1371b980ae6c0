"""Which running trials waste their slots, and when something is done about it."""

import datetime as dt
import random

import pytest

from muster.document.running import WasteSection
from muster_server.domain.runtime.waste import GAP_MAX, WasteFacts, decide, idle_since

START = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
RULE = WasteSection()
STOPPING = WasteSection(no_step_for_min=20, action="checkpoint_and_stop", act_after_min=10)


def at(minutes):
    return START + dt.timedelta(minutes=minutes)


def facts(**changes):
    values = {
        "trial_id": 1,
        "attempt_no": 1,
        "rules": (RULE,),
        "started_at": START,
        "moved_at": at(5),
        "idle_since": {},
        "is_exempt": False,
        "noticed_at": None,
        "kept_until": None,
    }
    return WasteFacts(**values | changes)


@pytest.mark.parametrize(
    ("changes", "minute", "kind"),
    [
        ({}, 64, None),
        ({}, 65, "notice"),
        ({"noticed_at": at(65)}, 500, None),
        ({"noticed_at": at(65), "moved_at": at(66)}, 67, "clear"),
        ({"moved_at": None}, 500, None),
        ({"is_exempt": True}, 500, None),
        ({"noticed_at": at(65), "is_exempt": True}, 66, "clear"),
        ({"kept_until": at(480)}, 479, None),
        ({"kept_until": at(480)}, 480, "notice"),
        ({"noticed_at": at(65), "kept_until": at(480)}, 66, "clear"),
        ({"moved_at": None, "idle_since": {5.0: at(10)}}, 69, None),
        ({"moved_at": None, "idle_since": {5.0: at(10)}}, 70, "notice"),
        ({"moved_at": at(99), "idle_since": {5.0: at(10)}}, 100, "notice"),
        ({"rules": (STOPPING,)}, 29, None),  # the grace of the start
        ({"rules": (STOPPING,)}, 30, "notice"),
        ({"rules": (STOPPING,), "noticed_at": at(30)}, 39, None),
        ({"rules": (STOPPING,), "noticed_at": at(30)}, 40, "end"),
        # Whoever was told late still has the time that was promised.
        ({"rules": (STOPPING,), "noticed_at": at(300)}, 309, None),
        ({"rules": (STOPPING,), "noticed_at": at(300)}, 310, "end"),
        # A document asks for something earlier, and cannot make its pool wait.
        ({"rules": (RULE, STOPPING)}, 30, "notice"),
        ({"rules": (STOPPING, WasteSection(no_step_for_min=None))}, 30, "notice"),
        ({"rules": (WasteSection(no_step_for_min=None, device_below_percent=None),)}, 500, None),
    ],
)
def test_a_trial_is_noticed_and_stopped_when_its_rules_say_so(changes, minute, kind):
    found = decide(facts(**changes), now=at(minute))
    assert (found and found.kind) == kind


def test_a_notice_says_why_and_what_follows():
    found = decide(facts(), now=at(65))
    assert found.text.english == "No step for 60 min, while its slots are held."
    assert (found.action, found.acts_at) == ("notice", None)
    found = decide(facts(rules=(STOPPING,), idle_since={5.0: at(-40)}), now=at(30))
    assert found.text.english == (
        "No step for 25 min, while its slots are held. It saves a checkpoint and stops at "
        "2026-03-01 12:40:00 UTC unless it goes on or you keep it running."
    )
    assert (found.action, found.acts_at) == ("checkpoint_and_stop", at(40))
    found = decide(facts(moved_at=None, idle_since={5.0: at(0)}), now=at(60))
    assert found.text.english == ("No GPU used by 5% or more for 60 min, while its slots are held.")


def test_the_slower_rule_of_a_document_is_announced_with_the_notice_of_its_pool():
    slow = WasteSection(no_step_for_min=600, action="stop", act_after_min=30)
    found = decide(facts(rules=(RULE, slow)), now=at(65))
    assert (found.kind, found.action, found.acts_at) == ("notice", "stop", at(635))
    later = facts(rules=(RULE, slow), noticed_at=at(65))
    assert decide(later, now=at(634)) is None
    assert decide(later, now=at(635)).kind == "end"


def test_gpus_are_idle_only_as_long_as_samples_say_so():
    samples = [(at(no), 1.0) for no in range(60, 9, -1)]
    assert idle_since(samples, 5.0, now=at(61)) == at(10)
    assert idle_since([*samples, (at(9), 50.0), (at(8), 0.0)], 5.0, now=at(61)) == at(10)
    assert idle_since([*samples[:20], (at(40), None)], 5.0, now=at(61)) == at(41)
    assert idle_since([(at(60), 5.0), *samples], 5.0, now=at(61)) is None
    assert idle_since([], 5.0, now=at(61)) is None
    assert idle_since(samples, 5.0, now=at(60) + GAP_MAX * 2) is None  # not heard since
    assert idle_since([*samples[:5], *samples[20:]], 5.0, now=at(61)) == at(56)  # nor in between


def test_nobody_is_stopped_without_a_notice_and_the_time_it_promised():
    """Random lives of a trial, looked at once a minute: an end follows a notice of the same silence, at
    least `act_after_min` after it, never within the grace, while it evaluates or while it is kept."""
    for seed in range(400):
        draw = random.Random(seed)
        rules = tuple(
            WasteSection(
                no_step_for_min=draw.choice([None, 3, 8, 20]),
                device_for_min=draw.choice([3, 15]),
                grace_min=draw.choice([0, 10]),
                action=draw.choice(["notice", "stop", "checkpoint_and_stop"]),
                act_after_min=draw.choice([0, 2, 9]),
            )
            for _ in range(draw.choice([1, 2]))
        )
        noticed_at = kept_until = moved_at = idle = None
        notices = 0
        for minute in range(1, 90):
            now = at(minute)
            if draw.random() < 0.15:
                moved_at = now
            idle = None if draw.random() < 0.05 else idle or now
            if draw.random() < 0.02:
                kept_until, noticed_at = at(minute + draw.choice([5, 20])), None
            seen = facts(
                rules=rules,
                moved_at=moved_at,
                idle_since={5.0: idle} if idle else {},
                is_exempt=draw.random() < 0.05,
                noticed_at=noticed_at,
                kept_until=kept_until,
            )
            found = decide(seen, now=now)
            if found is None:
                continue
            if found.kind != "clear":
                assert not seen.is_exempt
                assert kept_until is None or now >= kept_until
                assert now >= START + min(dt.timedelta(minutes=r.grace_min) for r in rules)
            if found.kind == "notice":
                assert noticed_at is None
                noticed_at, notices = now, notices + 1
            elif found.kind == "clear":
                noticed_at = None
            else:
                acting = [r for r in rules if r.action == found.action]
                assert acting
                assert noticed_at is not None
                least = min(r.act_after_min for r in acting)
                assert now >= noticed_at + dt.timedelta(minutes=least)
                assert now >= found.acts_at
                break

"""What holds in any cluster, with any queue."""

import dataclasses
import datetime as dt
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_server.domain.scheduling import (
    Placement,
    Preempt,
    ProjectView,
    Resize,
    Scheduler,
    SchedulerPolicy,
    SchedulerSnapshot,
    Wait,
    fitting,
    schedule,
)
from muster_server.domain.scheduling.offers import Offer
from muster_server.domain.scheduling.resources import Request
from support.scheduling import (
    NOW,
    at,
    make_node,
    make_queued,
    make_running,
    make_snapshot,
    make_window,
    under_windows,
)

POLICY = SchedulerPolicy(grow_after_s=300, age_after_s=600)
CPU = ("default", "cpu")


def random_request(draw, most=10):
    slots = draw.randint(1, most)
    nodes = draw.choice([None, None, None, 1, 2, 3])
    return {
        "slots": slots,
        "min_slots": draw.choice([None, None, draw.randint(1, slots)]),
        "nodes": nodes,
        "max_nodes": draw.choice([None, None, draw.randint(nodes or 1, 4)]),
        "uneven": draw.random() < 0.5,
        "labels": draw.choice([{}, {}, {"net": "ib"}]),
        "deny_nodes": draw.choice([(), (), ("n1",), ("n0", "n2")]),
        "topology_key": draw.choice([None, None, "rack"]),
        "topology_mode": draw.choice(["prefer", "require"]),
    }


def random_snapshot(seed, num_nodes, num_running, num_queued):
    """A cluster in which some trials run and some wait. Sizes are apart from the seed, so that a
    failing case is found in its smallest form."""
    draw = random.Random(seed)
    nodes, left = [], {}
    for i in range(num_nodes):
        left[f"n{i}"] = draw.randint(0, 6)
        nodes.append(
            make_node(
                f"n{i}",
                left[f"n{i}"],
                labels=draw.choice([{}, {"rack": "a"}, {"rack": "b"}, {"net": "ib", "rack": "a"}]),
                strikes=draw.choice([0, 0, 0, 1]),
                state=draw.choice(["ONLINE"] * 5 + ["SUSPECT"]),
                scheduling=draw.choice(["open"] * 5 + ["draining"]),
                free_since=draw.choice([None, at(-10), at(-1000)]),
            )
        )
    running = []
    for trial_id in range(1000, 1000 + num_running):
        names = [name for name, num in left.items() if num]
        if not names:
            break
        shares = {}
        for name in draw.sample(names, min(len(names), draw.randint(1, 2))):
            shares[name] = draw.randint(1, left[name])
            left[name] -= shares[name]
        held = sum(shares.values())
        running.append(
            make_running(
                trial_id,
                shares,
                slots=held + draw.choice([0, 0, 2]),
                min_slots=draw.randint(1, held),
                uneven=True,
                project_id=draw.randint(0, 2),
                priority=draw.randint(0, 3),
                preemptible=draw.random() < 0.7,
                yielding=draw.random() < 0.3,
                started_at=at(-draw.randint(0, 2000)),
                queue_no=float(draw.randint(0, 9)),
                expected_end_at=draw.choice([None, at(draw.randint(-5, 50))]),
                last_checkpoint_at=draw.choice([None, at(-draw.randint(0, 500))]),
            )
        )
    queue = [
        make_queued(
            trial_id,
            **random_request(draw),
            project_id=draw.randint(0, 2),
            priority=draw.randint(0, 3),
            queue_no=float(draw.randint(0, 9)),
            queued_at=at(-draw.choice([0, 100, 2000])),
            expected_s=draw.choice([None, float(draw.randint(1, 60))]),
            preferred_host=draw.choice([None, "", "h"]),
            promised_since=draw.choice([None] * 5 + [at(-50)]),
            resize_slots=draw.choice([None] * 5 + [2]),
        )
        for trial_id in draw.sample(range(1, 100), num_queued)
    ]
    projects = [
        ProjectView(
            id=i,
            name=f"p{i}",
            weight=draw.choice([0.5, 1.0, 3.0]),
            quotas=draw.choice([{}, {}, {CPU: 4}, {CPU: 9}]),
        )
        for i in draw.choice([(), (0,), (0, 1, 2)])
    ]
    return make_snapshot(nodes, queue, running, projects)


seeds = st.integers(0, 2**32)
snapshots = st.builds(
    random_snapshot, seeds, st.integers(0, 6), st.integers(0, 8), st.integers(0, 10)
)


def with_spares(snapshot, num, seed=0):
    """The same in a pool that holds spares, where some of those that wait have lost a node."""
    draw = random.Random(seed)
    return dataclasses.replace(
        snapshot,
        nodes=tuple(dataclasses.replace(view, pool_spares=num) for view in snapshot.nodes),
        queue=tuple(
            dataclasses.replace(
                t,
                lost_slots=(slots := draw.choice([None, None, t.request.slots])),
                is_returning=slots is not None and draw.random() < 0.3,
            )
            for t in snapshot.queue
        ),
    )


def decide(snapshot, policy=POLICY):
    return schedule(snapshot, now=NOW, policy=policy)


@settings(max_examples=200)
@given(
    snapshot=snapshots,
    policy=st.sampled_from(
        [POLICY, SchedulerPolicy(max_placements=2), SchedulerPolicy(preempt=False)]
    ),
)
def test_placements_are_whole_free_allowed_and_within_quotas(snapshot, policy):
    decisions = decide(snapshot, policy)
    nodes = {view.id: view for view in snapshot.nodes}
    queue = {trial.trial_id: trial for trial in snapshot.queue}
    told = Counter(d.trial_id for d in decisions if isinstance(d, Placement | Wait))
    assert told == Counter(list(queue))
    assert all(d.reason.english for d in decisions)
    positions = [d.position for d in decisions if isinstance(d, Wait)]
    assert positions == list(range(1, len(positions) + 1))

    taken = Counter()
    held = Counter()
    for trial in snapshot.running:
        held[trial.project_id] += trial.slots
    before = held.copy()
    for place in (d for d in decisions if isinstance(d, Placement)):
        trial = queue[place.trial_id]
        request = trial.request
        size = sum(len(share.slots) for share in place.shares)
        held[trial.project_id] += size
        assert request.least_slots <= size <= request.slots
        assert trial.resize_slots is None or size <= max(trial.resize_slots, request.least_slots)
        assert request.nodes in (None, len(place.shares))
        if request.nodes is None and request.max_nodes is not None:
            assert len(place.shares) <= request.max_nodes
        assert request.uneven or len({len(share.slots) for share in place.shares}) == 1
        assert [share.node_rank for share in place.shares] == list(range(len(place.shares)))
        used = [nodes[share.node_id] for share in place.shares]
        assert all(view.unavailable is None for view in used)
        assert all(view.name not in request.deny_nodes for view in used)
        assert all(view.labels.get(k) == v for view in used for k, v in request.labels.items())
        if request.topology_key is not None and request.topology_mode == "require":
            racks = {view.labels.get(request.topology_key) for view in used}
            assert len(used) == 1 or (len(racks) == 1 and None not in racks)
        for share in place.shares:
            free = {s.idx for s in nodes[share.node_id].slots if s.allocation_id is None}
            assert set(share.slots) <= free
            taken.update((share.node_id, idx) for idx in share.slots)
    assert all(num == 1 for num in taken.values())
    for project in snapshot.projects:
        if CPU in project.quotas:
            assert held[project.id] <= max(project.quotas[CPU], before[project.id])


@settings(max_examples=150)
@given(snapshot=snapshots, seed=seeds)
def test_the_order_of_the_input_does_not_matter(snapshot, seed):
    mix = random.Random(seed)
    mixed = SchedulerSnapshot(
        nodes=tuple(mix.sample(snapshot.nodes, len(snapshot.nodes))),
        queue=tuple(mix.sample(snapshot.queue, len(snapshot.queue))),
        running=tuple(mix.sample(snapshot.running, len(snapshot.running))),
        projects=tuple(mix.sample(snapshot.projects, len(snapshot.projects))),
    )
    assert decide(mixed) == decide(snapshot)


@settings(max_examples=150)
@given(snapshot=snapshots)
def test_a_pass_leaves_nothing_to_start(snapshot):
    """Carried out, the next pass starts nobody. (With several projects, ageing or trials that make
    room, what has started may change whose turn it is; and how an uneven gang is promised its slots depends
    on what is free beside it. So there are none.)"""
    snapshot = dataclasses.replace(
        snapshot,
        queue=tuple(
            dataclasses.replace(
                t, project_id=0, request=dataclasses.replace(t.request, uneven=False)
            )
            for t in snapshot.queue
        ),
        running=tuple(
            dataclasses.replace(t, project_id=0, yielding=False) for t in snapshot.running
        ),
    )
    policy = SchedulerPolicy(preempt=False)
    after = carried_out(snapshot, decide(snapshot, policy))
    assert [d for d in decide(after, policy) if isinstance(d, Placement)] == []


@settings(max_examples=150)
@given(snapshot=snapshots)
def test_asking_for_slots_comes_to_an_end(snapshot):
    """Pass after pass, everything carried out at once but giving up slots: each trial is asked at
    most once, and soon nothing is left to do."""
    for _ in range(len(snapshot.queue) + len(snapshot.running) + 1):
        decisions = decide(snapshot)
        leaving = {trial.trial_id for trial in snapshot.running if trial.yielding}
        assert not leaving & {d.trial_id for d in decisions if isinstance(d, Preempt | Resize)}
        if all(isinstance(d, Wait) for d in decisions):
            return
        snapshot = carried_out(snapshot, decisions)
    raise AssertionError("it goes on")


def carried_out(snapshot, decisions):
    queue = {trial.trial_id: trial for trial in snapshot.queue}
    running = {trial.trial_id: trial for trial in snapshot.running}
    taken = set()
    for d in decisions:
        if isinstance(d, Placement):
            trial = queue.pop(d.trial_id)
            taken.update((s.node_id, idx) for s in d.shares for idx in s.slots)
            running[d.trial_id] = dataclasses.replace(
                make_running(d.trial_id, {}),
                project_id=trial.project_id,
                priority=trial.priority,
                queue_no=trial.place,
                request=trial.request,
                started_at=NOW,
                preemptible=trial.preemptible,
                shares={s.node_id: len(s.slots) for s in d.shares},
                expected_end_at=None if trial.expected_s is None else at(trial.expected_s),
            )
        elif isinstance(d, Preempt | Resize):
            running[d.trial_id] = dataclasses.replace(running[d.trial_id], yielding=True)
    nodes = tuple(
        dataclasses.replace(
            view,
            slots=tuple(
                dataclasses.replace(s, allocation_id="new", free_since=None)
                if (view.id, s.idx) in taken
                else s
                for s in view.slots
            ),
        )
        for view in snapshot.nodes
    )
    return dataclasses.replace(
        snapshot, nodes=nodes, queue=tuple(queue.values()), running=tuple(running.values())
    )


@settings(max_examples=200)
@given(snapshot=snapshots)
def test_preemption_only_helps(snapshot):
    """Victims are less important, preemptible and asked once; with all of them, and not with any
    less, the gang fits on what is free or being given up."""
    decisions = decide(snapshot)
    running = {trial.trial_id: trial for trial in snapshot.running}
    queue = {trial.trial_id: trial for trial in snapshot.queue}
    asks = [d for d in decisions if isinstance(d, Preempt | Resize)]
    assert len({d.trial_id for d in asks}) == len(asks)
    for ask in asks:
        victim = running[ask.trial_id]
        assert not victim.yielding
        assert ask.attempt_no == victim.attempt_no
        if isinstance(ask, Preempt):
            assert victim.preemptible
            assert victim.priority < queue[ask.for_trial_id].priority
        elif ask.slots < victim.slots:
            assert victim.preemptible
            assert victim.request.least_slots <= ask.slots
        else:
            assert ask.slots > victim.slots
            assert ask.slots <= victim.request.slots


@settings(max_examples=200)
@given(snapshot=snapshots, priority=st.integers(1, 4), seed=seeds)
def test_victims_are_enough_and_none_is_spare(snapshot, priority, seed):
    """For one gang, against a search of its own: it is helped exactly when helping is possible."""
    gang = make_queued(1, **random_request(random.Random(seed)), priority=priority)
    snapshot = dataclasses.replace(snapshot, queue=(gang,), projects=())
    decisions = decide(snapshot)
    asks = {
        d.trial_id
        for d in decisions
        if isinstance(d, Preempt) or (isinstance(d, Resize) and d.reason.code != "preempt.grow")
    }
    leaving = {trial.trial_id for trial in snapshot.running if trial.yielding}
    if any(isinstance(d, Placement) for d in decisions) or fits(snapshot, gang, leaving):
        assert asks == set()
        return
    could = {
        trial.trial_id
        for trial in snapshot.running
        if trial.preemptible and trial.priority < priority
    }
    assert bool(asks) == fits(snapshot, gang, leaving | could)
    if asks:
        assert asks <= could
        assert fits(snapshot, gang, leaving | asks)
        for spared in asks:
            assert not fits(snapshot, gang, leaving | (asks - {spared}))


def fits(snapshot, gang, leaving):
    """Whether the gang's least size would be placed if these trials had left."""
    running = [trial for trial in snapshot.running if trial.trial_id not in leaving]
    empty = [
        dataclasses.replace(
            view,
            slots=tuple(dataclasses.replace(slot, allocation_id=None) for slot in view.slots),
        )
        for view in snapshot.nodes
    ]
    least = dataclasses.replace(gang.request, slots=gang.request.least_slots, min_slots=None)
    alone = make_snapshot(empty, [dataclasses.replace(gang, request=least)], running)
    decisions = decide(alone, SchedulerPolicy(preempt=False))
    return any(isinstance(d, Placement) for d in decisions)


@settings(max_examples=200)
@given(snapshot=snapshots)
def test_estimates_come_in_order_and_never_before_now(snapshot):
    waits = [d for d in decide(snapshot) if isinstance(d, Wait)]
    estimates = [d.estimated_start_at for d in waits if d.estimated_start_at is not None]
    assert estimates == sorted(estimates)
    assert all(estimate >= NOW for estimate in estimates)


@settings(max_examples=150)
@given(
    seed=seeds,
    pool=st.lists(
        st.builds(with_spares, snapshots, st.sampled_from([0, 0, 1, 2]), seeds),
        min_size=3,
        max_size=3,
    ),
    num_passes=st.integers(2, 8),
)
def test_with_a_memory_it_decides_as_without(seed, pool, num_passes):
    """Any sequence of snapshots, with old objects or new ones, gives what `schedule` gives."""
    draw = random.Random(seed)
    scheduler = Scheduler()
    now_s = 0
    for _ in range(num_passes):
        one, other = draw.choice(pool), draw.choice(pool)
        snapshot = draw.choice(
            [
                one,
                dataclasses.replace(one, queue=other.queue),
                dataclasses.replace(one, queue=one.queue[::2]),
                dataclasses.replace(one, projects=other.projects),
                dataclasses.replace(one, nodes=one.nodes[1:]),
                without_one(one),
            ]
        )
        now_s += draw.randint(-20, 40)
        decided = scheduler.run(snapshot, now=at(now_s), policy=POLICY)
        expected = schedule(snapshot, now=at(now_s), policy=POLICY)
        if draw.random() < 0.7:  # whether the waits are read changes nothing for later passes
            assert [*decided.actions, *decided.waits()] == expected
        else:
            assert decided.actions == [d for d in expected if not isinstance(d, Wait)]


def without_one(snapshot):
    """The same after a running trial has ended."""
    running = [dataclasses.replace(trial) for trial in snapshot.running[1:]]
    empty = [
        dataclasses.replace(
            view,
            slots=tuple(dataclasses.replace(slot, allocation_id=None) for slot in view.slots),
        )
        for view in snapshot.nodes
    ]
    return make_snapshot(empty, snapshot.queue, running, snapshot.projects)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 4), st.integers(0, 1)), max_size=30),
    st.integers(1, 4),
)
def test_an_offer_is_what_was_put_into_it(puts, slots):
    offer = Offer[int]()
    expected = {}
    for node, num, strikes in puts:
        offer.put(node, num, strikes)
        expected[node] = (strikes, num)
    offered = {node: level for node, level in expected.items() if level[1] > 0}
    assert offer.total == sum(num for _, num in offered.values())
    assert dict(offer.items()) == {node: num for node, (_, num) in offered.items()}
    able = [(*level, node) for node, level in offered.items() if level[1] >= slots]
    assert list(offer.tightest(slots)) == [node for _, _, node in sorted(able)]
    assert offer.num_with(slots) == len(able)
    assert offer.largest == max((num for _, num in offered.values()), default=0)


@settings(max_examples=150)
@given(free=st.dictionaries(st.integers(0, 6), st.integers(1, 5), max_size=6), seed=seeds)
def test_an_elastic_gang_gets_the_largest_size_that_would_fit_by_itself(free, seed):
    request = random_request(random.Random(seed), most=12)
    request = Request(
        **{k: request[k] for k in ("slots", "min_slots", "nodes", "max_nodes", "uneven")}
    )
    chosen = fitting.fit(request, Offer.of(free))
    sizes = [
        size
        for size in range(request.least_slots, request.slots + 1)
        if fitting.fit(dataclasses.replace(request, slots=size, min_slots=None), Offer.of(free))
    ]
    assert (sum(chosen.values()) if chosen else 0) == max(sizes, default=0)


@settings(max_examples=150)
@given(snapshot=snapshots, num=st.integers(1, 3))
def test_a_pass_of_ordinary_trials_leaves_the_spares(snapshot, num):
    queue = tuple(dataclasses.replace(t, promised_since=None) for t in snapshot.queue)
    snapshot = with_spares(dataclasses.replace(snapshot, queue=queue), num)
    snapshot = dataclasses.replace(
        snapshot,
        queue=tuple(
            dataclasses.replace(t, lost_slots=None, is_returning=False) for t in snapshot.queue
        ),
    )
    before = idle_nodes(snapshot)
    after = idle_nodes(carried_out(snapshot, decide(snapshot)))
    assert len(after) >= min(num, len(before))


@settings(max_examples=150)
@given(snapshot=snapshots, num=st.integers(1, 3))
def test_who_lost_a_node_starts_on_a_spare_whatever_waits(snapshot, num):
    snapshot = with_spares(snapshot, num)
    snapshot = dataclasses.replace(
        snapshot,
        queue=tuple(
            dataclasses.replace(t, lost_slots=None, is_returning=False) for t in snapshot.queue
        ),
    )
    after = carried_out(snapshot, decide(snapshot))
    if (idle := idle_nodes(after)) and len(idle) <= num:
        trial = make_queued(999, 1, lost_slots=1, project_id=77)
        decisions = decide(dataclasses.replace(after, queue=(*after.queue, trial)))
        assert 999 in [d.trial_id for d in decisions if isinstance(d, Placement)]


def idle_nodes(snapshot):
    """Nodes all of whose slots are free."""
    return [
        view.id
        for view in snapshot.nodes
        if view.slots
        and view.unavailable is None
        and all(s.allocation_id is None for s in view.slots)
    ]


@pytest.mark.parametrize("same", [True, False])
def test_a_pass_over_nothing(same):
    assert decide(make_snapshot({"a": 2} if same else [])) == []


def random_windows(draw):
    return [
        make_window(
            start := draw.randint(-3000, 3000),
            draw.choice([None, start + draw.randint(1, 3000)]),
            id=i,
            running=draw.choice(["keep", "checkpoint"]),
            pools=draw.choice([(), (), ("default",), ("other",)]),
            nodes=draw.choice([("n0",), ("n1", "n2"), ("n3",), ()]),
        )
        for i in range(draw.randint(0, 3))
    ]


@settings(max_examples=200)
@given(snapshot=snapshots, seed=st.integers(0, 2**32))
def test_no_placement_starts_in_or_is_sure_to_reach_into_a_make_window(snapshot, seed):
    draw = random.Random(seed)
    windows = random_windows(draw)
    queue = tuple(
        dataclasses.replace(
            t, request=dataclasses.replace(t.request, limit_s=draw.choice([0, 0, 500, 2000]))
        )
        for t in snapshot.queue
    )
    remembers = Scheduler()
    for later in (0, 700, 1400):
        now = NOW + dt.timedelta(seconds=later)
        there = dataclasses.replace(
            snapshot, nodes=tuple(under_windows(windows, snapshot.nodes, now)), queue=queue
        )
        decided = remembers.run(there, now=now, policy=POLICY)
        decisions = [*decided.actions, *decided.waits()]
        assert decisions == schedule(there, now=now, policy=POLICY)
        limits = {t.trial_id: t.request.limit_s for t in queue}
        for place in (d for d in decisions if isinstance(d, Placement)):
            end = now + dt.timedelta(seconds=limits[place.trial_id])
            for share in place.shares:
                for w in windows:
                    if w.covers(node=share.node_name, pool="default"):
                        assert not w.is_active(now)
                        assert w.starts_at >= end or w.starts_at <= now or end == now

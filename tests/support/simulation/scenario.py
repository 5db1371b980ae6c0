"""What will happen in one history, drawn from its seed before it begins.

Everything random about the outside world is decided here or by a stream of its own, so that a
scenario can be printed, and changing how one thing is drawn leaves the others as they were.
"""

from __future__ import annotations

import dataclasses
import json
import random
from dataclasses import dataclass
from typing import Any, Literal

FaultKind = Literal[
    "cut",
    "cut_all",
    "proxy_away",
    "api_down",
    "api_freeze",
    "database_away",
    "controller_kill",
    "controller_freeze",
    "agent_kill",
    "shim_kill",
    "worker_kill",
    "node_crash",
    "server_clock",
    "node_clock",
    "hints_lost",
]
ActionKind = Literal[
    "stop_experiment",
    "kill_experiment",
    "pause",
    "resume",
    "stop_trial",
    "priority",
    "cordon",
    "drain",
    "open",
    "submit_again",
]


@dataclass(frozen=True, kw_only=True)
class NodePlan:
    name: str
    num_slots: int
    skew_s: float
    rate: float
    torch_version: str = ""
    """What it says that workers would run with; "" where no node says anything."""


@dataclass(frozen=True, kw_only=True)
class Mishap:
    """What goes wrong by itself in one attempt of a trial."""

    kind: Literal["raise", "killed", "cannot_prepare", "hang"]
    at_step: int = 0
    node_rank: int = 0


@dataclass(frozen=True, kw_only=True)
class Script:
    """How a trial trains. The loss of a step follows from the trial and the step alone."""

    num_steps: int
    step_s: float
    report_every: int
    checkpoint_every: int
    """0: never."""
    prepare_s: float
    startup_s: float
    stops: Literal["quick", "slow", "deaf"]
    """When asked to stop: at once with a checkpoint, late, or never."""
    peers_notice: bool
    """Workers whose peer died fail too, after a while; else they hang until they are stopped."""
    logs: bool
    mishaps: tuple[tuple[int, Mishap], ...] = ()
    """By attempt number."""

    def mishap(self, attempt_no: int) -> Mishap | None:
        return dict(self.mishaps).get(attempt_no)


@dataclass(frozen=True, kw_only=True)
class Submission:
    at_s: float
    document: dict[str, Any]
    script: Script

    @property
    def name(self) -> str:
        return str(self.document["name"])

    def text(self) -> str:
        return json.dumps(self.document)


@dataclass(frozen=True, kw_only=True)
class Fault:
    kind: FaultKind
    at_s: float
    duration_s: float
    target: int = 0
    """Of the nodes, the controllers or the running allocations: this one, counted around."""
    amount: float = 0.0
    """Seconds a clock jumps; transactions a controller still gets through."""
    flavor: str = ""
    aimed_at: tuple[str, str] | None = None
    """("attempt", "STARTING"): not at a time, but when something next enters that state."""


@dataclass(frozen=True, kw_only=True)
class UserAction:
    kind: ActionKind
    at_s: float
    target: int = 0
    amount: int = 0


@dataclass(frozen=True, kw_only=True)
class Weather:
    """How the network behaves while nothing is broken."""

    loss: float
    duplication: float
    delay_s: float
    """Mean of one way."""
    late: float
    """Share of requests that arrive long after their sender gave up."""
    hint_loss: float


@dataclass(frozen=True, kw_only=True)
class Timings:
    """The settings of the server that matter here."""

    heartbeat_s: float = 10.0
    node_suspect_missed: int = 2
    node_lost_s: float = 40.0
    takeover_grace_s: float = 15.0
    prepare_timeout_s: float = 60.0
    start_timeout_s: float = 60.0
    wind_down_s: float = 60.0
    controller_lease_s: float = 25.0
    controller_interval_s: float = 10.0
    agent_credential_max_age_s: float = 86_400.0


@dataclass(frozen=True, kw_only=True)
class Scenario:
    seed: int
    nodes: tuple[NodePlan, ...]
    submissions: tuple[Submission, ...]
    faults: tuple[Fault, ...]
    actions: tuple[UserAction, ...]
    weather: Weather
    timings: Timings
    num_controllers: int
    interleaving: float
    """Chance that something else happens between two transactions of a controller."""
    num_apis: int = 1
    is_balanced: bool = False
    """A proxy gives agents a server that serves; else each agent knows one server."""
    are_only_outages: bool = False
    """Nothing fails but the control plane, and at the end one node."""
    crash: Fault | None = None
    """The last fault, of one node alone."""
    lasts_s: float = 0.0
    """It goes on for so long, though everything has ended."""

    @property
    def faults_end_at_s(self) -> float:
        """From here on everything works."""
        moments = [s.at_s for s in self.submissions] + [a.at_s for a in self.actions]
        moments += [f.at_s + f.duration_s for f in self.faults]
        return max(moments, default=0.0) + 1.0

    def without_faults(self) -> Scenario:
        """The same cluster and trials on a day on which nothing goes wrong."""
        calm = Weather(loss=0, duplication=0, delay_s=0.01, late=0, hint_loss=0)
        quiet = tuple(
            dataclasses.replace(s, script=dataclasses.replace(s.script, mishaps=()))
            for s in self.submissions
        )
        return dataclasses.replace(self, faults=(), actions=(), weather=calm, submissions=quiet)

    def with_outages_only(self) -> Scenario:
        """The same cluster and trials, of which nothing fails but the control plane, once or twice, for
        short or for long. Where there are several nodes, one of them crashes when all that is over."""
        rng = random.Random(f"outages {self.seed}")
        calm = self.without_faults()
        submissions = tuple(
            dataclasses.replace(
                s,
                document={
                    **s.document,
                    # Cut off for long it would rightly end, and come back.
                    "on_disconnect": "continue",
                    "resources": {**s.document["resources"], "preemptible": False},
                    "preflight": {"versions": "warn"},
                },
            )
            for s in calm.submissions
        )
        for s in submissions:
            s.document["resources"].pop("min_slots", None)  # its size would change
        faults = tuple(_draw_outage(rng, 40.0) for _ in range(rng.choice([1, 1, 2])))
        ends_s = max(f.at_s + f.duration_s for f in faults)
        crash = None
        if len(self.nodes) > 1:
            target = rng.randrange(len(self.nodes))
            at_s = ends_s + 400.0  # what ran has ended by then
            crash = Fault(
                kind="node_crash", at_s=at_s, duration_s=150.0, target=target, flavor="kept"
            )
            faults = (*faults, crash)
        return dataclasses.replace(
            calm,
            nodes=tuple(dataclasses.replace(n, torch_version="") for n in self.nodes),
            submissions=submissions,
            faults=faults,
            are_only_outages=True,
            crash=crash,
            lasts_s=0.0 if crash is None else crash.at_s + crash.duration_s,
        )


def draw(seed: int) -> Scenario:
    """The scenario of a seed: one in twelve is a large one."""
    rng = random.Random(f"scenario {seed}")
    is_large = seed % 12 == 0
    nodes = _draw_nodes(rng, rng.randint(3, 5) if is_large else rng.choice([1, 2, 2, 3]))
    if seed % 8 == 1 and len(nodes) > 1:  # of the seed and not drawn, like `variant` below
        nodes = _with_an_odd_one(nodes, seed)
    submissions = tuple(
        _draw_submission(rng, seed, i, nodes)
        for i in range(rng.randint(3, 5) if is_large else rng.choice([1, 1, 2]))
    )
    num_faults = rng.randint(4, 8) if is_large else rng.choice([1, 1, 2, 2, 3])
    faults = tuple(_draw_fault(rng, 90.0 if is_large else 25.0) for _ in range(num_faults))
    num_actions = rng.randint(1, 4) if is_large else rng.choice([0, 0, 1])
    actions = tuple(_draw_action(rng, 90.0 if is_large else 25.0) for _ in range(num_actions))
    return Scenario(
        seed=seed,
        nodes=nodes,
        submissions=submissions,
        faults=(*faults, *_outages_of(seed)),
        actions=_opened_again(actions),
        weather=_draw_weather(rng),
        timings=_draw_timings(rng),
        num_controllers=rng.choice([1, 1, 2]) if not is_large else rng.choice([2, 3]),
        interleaving=rng.choice([0.0, 0.2, 0.5]),
        # Of the seed and not drawn: other scenarios stay as they were.
        num_apis=2 if seed % 5 in (2, 4) else 1,
        is_balanced=seed % 5 == 4,
    )


def _draw_nodes(rng: random.Random, num: int) -> tuple[NodePlan, ...]:
    return tuple(
        NodePlan(
            name=f"node-{i + 1}",
            num_slots=rng.choice([1, 2, 2, 4]),
            skew_s=rng.choice([0.0, 0.0, rng.uniform(-5, 5), rng.uniform(-7200, 7200)]),
            rate=rng.choice([1.0, rng.uniform(0.99, 1.01)]),
        )
        for i in range(num)
    )


def _with_an_odd_one(nodes: tuple[NodePlan, ...], seed: int) -> tuple[NodePlan, ...]:
    """One of them does not fit into a gang with any other."""
    return tuple(
        dataclasses.replace(node, torch_version="2.12" if i == seed % len(nodes) else "2.13")
        for i, node in enumerate(nodes)
    )


def _draw_submission(
    rng: random.Random, seed: int, index: int, nodes: tuple[NodePlan, ...]
) -> Submission:
    most = sum(node.num_slots for node in nodes)
    resources: dict[str, Any] = {"priority": rng.choice([10, 50, 50, 90])}
    if len(nodes) > 1 and rng.random() < 0.5:
        num = rng.randint(2, len(nodes))
        resources |= {"slots": num * min(n.num_slots for n in nodes), "nodes": num}
    else:
        resources["slots"] = rng.randint(1, max(n.num_slots for n in nodes))
    assert resources["slots"] <= most
    if resources["slots"] > 1 and "nodes" not in resources and rng.random() < 0.3:
        resources["min_slots"] = 1
    resources["preemptible"] = rng.random() < 0.8
    document: dict[str, Any] = {
        "name": f"h{seed}-{index}",
        "entrypoint": ["train.py"],
        "code": {"installed": "/srv/code"},
        "launcher": "direct",
        "resources": resources,
        "restarts": {"user": rng.choice([0, 1, 2]), "infra": rng.choice([1, 3, 6])},
        "on_disconnect": rng.choice(["continue", "stop"]),
        "stop_grace_s": rng.choice([2.0, 5.0, 10.0]),
    }
    if any(node.torch_version for node in nodes):
        document["preflight"] = {"versions": "require"}
    script = _draw_script(rng)
    if rng.random() < 0.2:
        trials = rng.choice([2, 3])
        document["hyperparameters"] = {"lr": {"log": [1e-4, 1e-1]}}
        document["search"] = {"method": "random", "trials": trials, "concurrent": 2, "seed": seed}
        if rng.random() < 0.5:
            document["search"] |= {
                "method": "asha",
                "metric": "train/loss",
                "goal": "min",
                "max_length": {"steps": script.num_steps},
                "divisor": 2,
                # Of the seed and not drawn: other scenarios stay as they were.
                "variant": "promotion" if seed % 2 else "stopping",
            }
    return Submission(at_s=rng.uniform(0, 4), document=document, script=script)


def _draw_script(rng: random.Random) -> Script:
    num_steps = rng.choice([6, 12, 18])
    mishaps: dict[int, Mishap] = {}
    for attempt_no in (1, 2, 3):
        if rng.random() < 0.15:
            mishaps[attempt_no] = Mishap(
                kind=rng.choice(["raise", "raise", "killed", "cannot_prepare", "hang"]),
                at_step=rng.randint(0, num_steps),
                node_rank=rng.choice([0, 0, 1]),
            )
    return Script(
        num_steps=num_steps,
        step_s=rng.choice([0.5, 2.0, 6.0]),
        report_every=rng.choice([3, 6]),
        checkpoint_every=rng.choice([0, 3, 6]),
        prepare_s=rng.uniform(0.1, 2.0),
        startup_s=rng.uniform(0.1, 2.0),
        stops=rng.choice(["quick", "quick", "quick", "slow", "deaf"]),
        peers_notice=rng.random() < 0.6,
        logs=rng.random() < 0.25,
        mishaps=tuple(mishaps.items()),
    )


_FAULTS: tuple[tuple[FaultKind, float], ...] = (
    ("cut", 22),
    ("cut_all", 4),
    ("api_down", 9),
    ("controller_kill", 13),
    ("controller_freeze", 9),
    ("agent_kill", 12),
    ("shim_kill", 6),
    ("worker_kill", 5),
    ("node_crash", 12),
    ("server_clock", 4),
    ("node_clock", 3),
    ("hints_lost", 3),
)

_MOMENTS: tuple[tuple[str, str], ...] = (
    ("attempt", "PREPARING"),
    ("attempt", "STARTING"),
    ("attempt", "RUNNING"),
    ("attempt", "FAILED"),
    ("attempt", "WINDING_DOWN"),
    ("allocation", "PREPARING"),
    ("allocation", "READY"),
    ("allocation", "EXITED"),
    ("allocation", "CLEANED"),
    ("allocation", "LOST"),
    ("trial", "STOPPING"),
    ("trial", "RETRY_WAIT"),
    ("node", "SUSPECT"),
    ("node", "LOST"),
    ("node", "RECONCILING"),
    ("checkpoint", "complete"),
)


def _draw_fault(rng: random.Random, until_s: float) -> Fault:
    kinds, weights = zip(*_FAULTS, strict=True)
    kind: FaultKind = rng.choices(kinds, weights)[0]
    duration_s = 0.0
    amount, flavor = 0.0, ""
    match kind:
        case "cut" | "cut_all":
            # Short ones nobody should notice; SUSPECT; LOST; and past every grace.
            duration_s = rng.choice([rng.uniform(1, 15), rng.uniform(15, 40), rng.uniform(40, 80)])
            flavor = rng.choice(["both", "both", "up", "down"])
        case "api_down":
            duration_s = rng.choice([rng.uniform(0.5, 5), rng.uniform(10, 50)])
        case "controller_kill":
            duration_s = rng.choice([0.5, rng.uniform(1, 40)])
            amount = rng.choice([0, 1, 2, 3, 5, 8])
        case "controller_freeze":
            duration_s = rng.uniform(5, 60)
            amount = rng.choice([0, 1, 2, 3, 5, 8])
        case "agent_kill":
            duration_s = rng.choice([0.2, rng.uniform(1, 15), rng.uniform(30, 60)])
        case "node_crash":
            duration_s = rng.choice([rng.uniform(2, 15), rng.uniform(30, 70)])
            flavor = rng.choice(["kept", "kept", "torn", "wiped"])
        case "server_clock":
            amount = rng.choice([-3600.0, -30.0, 30.0, 70.0, 3600.0])
        case "node_clock":
            amount = rng.choice([-3600.0, -30.0, 30.0, 3600.0])
        case "hints_lost":
            duration_s = rng.uniform(10, 60)
        case "shim_kill" | "worker_kill":
            pass
    return Fault(
        kind=kind,
        at_s=rng.uniform(1, until_s),
        duration_s=duration_s,
        target=rng.randint(0, 5),
        amount=amount,
        flavor=flavor,
        aimed_at=rng.choice(_MOMENTS) if rng.random() < 0.25 else None,
    )


_OUTAGES: tuple[FaultKind, ...] = ("api_down", "api_freeze", "database_away", "proxy_away")


def _outages_of(seed: int) -> tuple[Fault, ...]:
    """One of the control plane beside what else was drawn, in every third history."""
    return (_draw_outage(random.Random(f"outage {seed}"), 25.0),) if seed % 3 == 2 else ()


def _draw_outage(rng: random.Random, until_s: float) -> Fault:
    return Fault(
        kind=rng.choice(_OUTAGES),
        at_s=rng.uniform(1, until_s),
        # Short ones nobody should notice; longer than a lease; than any node is given; than any step.
        duration_s=rng.choice([rng.uniform(1, 15), rng.uniform(15, 50), 80.0, 300.0]),
        target=rng.randint(0, 5),
        flavor=rng.choice(["all", "one"]),
    )


def _draw_action(rng: random.Random, until_s: float) -> UserAction:
    kind: ActionKind = rng.choice(
        [
            "stop_experiment",
            "kill_experiment",
            "stop_trial",
            "pause",
            "pause",
            "priority",
            "cordon",
            "drain",
            "drain",
            "submit_again",
        ]
    )
    return UserAction(
        kind=kind, at_s=rng.uniform(2, until_s), target=rng.randint(0, 5), amount=rng.randint(0, 99)
    )


def _opened_again(actions: tuple[UserAction, ...]) -> tuple[UserAction, ...]:
    """What is closed is opened later, what is paused goes on, or trials would rightly wait."""
    undo: dict[ActionKind, ActionKind] = {"cordon": "open", "drain": "open", "pause": "resume"}
    opened = tuple(
        dataclasses.replace(a, kind=undo[a.kind], at_s=a.at_s + 10.0 + a.amount / 5)
        for a in actions
        if a.kind in undo
    )
    return (*actions, *opened)


def _draw_weather(rng: random.Random) -> Weather:
    rough = rng.random() < 0.6
    return Weather(
        loss=rng.choice([0.01, 0.05, 0.15]) if rough else 0.0,
        duplication=rng.choice([0.02, 0.1, 0.3]) if rough else 0.0,
        delay_s=rng.choice([0.005, 0.05, 0.3]),
        late=rng.choice([0.0, 0.03, 0.1]) if rough else 0.0,
        hint_loss=rng.choice([0.0, 0.3, 1.0]) if rough else 0.0,
    )


def _draw_timings(rng: random.Random) -> Timings:
    # A few combinations only: making settings takes longer than many a transaction.
    return rng.choice(
        [
            Timings(),
            Timings(takeover_grace_s=0.0, agent_credential_max_age_s=60.0),
            Timings(heartbeat_s=5.0, node_suspect_missed=3, node_lost_s=45.0),
        ]
    )

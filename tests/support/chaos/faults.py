"""What is done to the stack, how it is undone, and what tells that it has recovered."""

from __future__ import annotations

import collections
import contextlib
import json
import random
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil
import redis

from .links import CUTS, Mode
from .recoveries import Recoveries
from .world import NUM_AGENTS, World

AGENTS = tuple(f"agent-local-{number}" for number in range(1, NUM_AGENTS + 1))
PARTS = ("server", "controller", "worker", "valkey", *AGENTS)
MEMBERS = ("shim", "rank")
"""Of a training: hitting one costs its trial a restart."""
FREEZE_S = (0.5, 4.0)
"""Of a freeze, a cut, a full disk: less than a lease."""
LONG_S = (18.0, 45.0)
"""Of a long cut: more than a lease, and often more than a node may be away."""
LONG_FULL_S = (4.0, 20.0)
"""Of a full disk in a long run."""
LONG_SHARE = 0.3
"""Of the cuts, where long ones are done."""
DOWN_S = (0.0, 3.0)
"""Until a killed PostgreSQL is started again."""
HITS_MAX = 2
LONG_HITS_MAX = 4
"""How often one trial is made to start again; more in a long run."""
ANSWER_S = 0.5


class Blows:
    """Everything is undone by `undo_all`; what lasts is undone by itself before that."""

    def __init__(
        self,
        world: World,
        draw: random.Random,
        recoveries: Recoveries,
        *,
        is_long: bool,
        say: Callable[[str], None],
    ) -> None:
        self._world = world
        self._draw = draw
        self._recoveries = recoveries
        self._is_long = is_long
        self._say = say
        self._hits: collections.Counter[int] = collections.Counter()
        self._hits_max = LONG_HITS_MAX if is_long else HITS_MAX
        self._lasting: dict[str, threading.Timer] = {}
        self._failures: list[BaseException] = []
        self.kinds = [f"{how} {what}" for what in (*PARTS, *MEMBERS) for how in ("kill", "freeze")]
        self.kinds += [f"{mode} link-{number}" for mode in CUTS for number in range(NUM_AGENTS)]
        self.kinds += ["flush valkey", *(f"fill {disk}" for disk in world.disks)]
        if world.postgres is not None:
            self.kinds.append("kill postgres")

    def strike(self, kind: str) -> bool:
        """One blow; False when there is nothing that may be hit in this way now."""
        how, _, what = kind.partition(" ")
        for_s = self._draw.uniform(*FREEZE_S)
        match how:
            case "kill" if what == "postgres":
                done = self._kill_postgres()
            case "kill" | "freeze":
                done = self._hit(how, what, for_s)
            case "flush":
                done = self._flush()
            case "fill":
                done = self._fill(what, for_s)
            case _:
                done = self._cut(how, int(what.rpartition("-")[2]), for_s)  # type: ignore[arg-type]
        return done

    def undo_all(self) -> None:
        """Wait until nothing lasts any more. Raises what went wrong in undoing."""
        for timer in list(self._lasting.values()):
            timer.join()
        if self._failures:
            raise self._failures[0]

    def ready(self) -> list[int]:
        """Trials that have saved a checkpoint in their attempt: three failures in a row without one
        would rightly end them."""
        rows = self._world.look(
            "SELECT DISTINCT t.id FROM trials t JOIN checkpoints c "
            "ON c.trial_id = t.id AND c.attempt_no = t.attempt_no "
            "WHERE t.state = 'RUNNING' ORDER BY t.id"
        )
        return [int(row[0]) for row in rows]

    # ---- processes

    def _hit(self, how: str, what: str, for_s: float) -> bool:
        found = self._part(what) if what in PARTS else self._member(what)
        if found is None:
            return False
        if how == "freeze":
            with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended by itself
                found.suspend()
                self._lasts(f"{found.pid} {found.create_time()}", for_s, lambda: _thaw(found))
        else:
            check = self._recovery_of(what, found)
            with contextlib.suppress(psutil.NoSuchProcess):
                found.kill()
            if check is not None:
                self._recoveries.watch(*check)
        self._say(f"- {how} {what} (process {found.pid})")
        return True

    def _part(self, name: str) -> psutil.Process | None:
        alive = {process.pid: process for process in self._world.processes()}
        try:
            return alive.get(self._world.stack.part_pid(name))
        except (KeyError, ValueError):
            return None  # it is being started again

    def _member(self, what: str) -> psutil.Process | None:
        ready = [trial for trial in self.ready() if self._hits[trial] < self._hits_max]
        members = [p for p in self._world.processes() if _trial_of(p, what) in ready]
        if not members:
            return None
        member = self._draw.choice(sorted(members, key=lambda p: p.pid))
        trial = _trial_of(member, what)
        if trial is None:
            return None  # it has just ended by itself
        self._hits[trial] += 1
        return member

    def _recovery_of(
        self, what: str, process: psutil.Process
    ) -> tuple[str, Callable[[], bool]] | None:
        """What to call it, and what tells that whatever is killed now has been replaced."""
        look = self._world.look
        if what == "server":
            pid = process.pid
            return (
                "API server killed, answers again",
                lambda: self._pid(what) not in (pid, None) and self._answers(),
            )
        if what == "controller":
            query = "SELECT holder FROM controller_leases"
            before = look(query)
            return "controller killed, scheduling again", lambda: look(query) not in ([], before)
        if what in AGENTS:
            query = "SELECT session_epoch FROM nodes WHERE name = :name"
            name = what.removeprefix("agent-")
            before = look(query, name=name)
            return "agent killed, heard again", lambda: look(query, name=name) not in ([], before)
        if what in MEMBERS:
            trial = _trial_of(process, what)
            rows = look("SELECT attempt_no FROM trials WHERE id = :id", id=trial)
            no = rows[0][0] if rows else 0
            query = (
                "SELECT 1 FROM trials WHERE id = :id AND (state = 'COMPLETED' "
                "OR (state = 'RUNNING' AND attempt_no > :no))"
            )
            return (
                f"{what} killed, training again",
                lambda: bool(look(query, id=trial, no=no)),
            )
        return None

    def _pid(self, name: str) -> int | None:
        try:
            return self._world.stack.part_pid(name)
        except (KeyError, ValueError):
            return None

    def _answers(self) -> bool:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{self._world.stack.url}/readyz", timeout=ANSWER_S) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    # ---- what lies around

    def _kill_postgres(self) -> bool:
        server = self._world.postgres
        if server is None or "postgres" in self._lasting:
            return False
        server.kill()
        down_s = self._draw.uniform(*DOWN_S)

        def start() -> None:
            server.start()
            self._recoveries.watch("PostgreSQL started again, API server ready", self._answers)

        self._lasts("postgres", down_s, start)
        self._say(f"- kill postgres, started again after {down_s:.1f} s")
        return True

    def _flush(self) -> bool:
        try:
            self._world.flush_valkey()
        except redis.RedisError:
            return False
        self._say("- flush valkey")
        return True

    def _fill(self, name: str, for_s: float) -> bool:
        """A worker that cannot save its checkpoint fails, and an allocation that cannot be made."""
        disk = self._world.disks[name]
        may_cost = name != "server" or self._is_long
        if name in self._lasting or (may_cost and not self._may_hit_all()):
            return False
        if self._is_long:
            for_s = self._draw.uniform(*LONG_FULL_S)
        self._lasts(name, for_s, disk.empty)
        with contextlib.suppress(OSError):
            disk.fill()
        self._say(f"- fill {name} for {for_s:.1f} s")
        return True

    def _cut(self, mode: Mode, number: int, for_s: float) -> bool:
        name = f"link-{number}"
        if name in self._lasting:
            return False
        if self._is_long and self._draw.random() < LONG_SHARE and self._may_hit_all():
            for_s = self._draw.uniform(*LONG_S)
        links, look = self._world.links, self._world.look
        query = "SELECT last_seen_at FROM nodes WHERE name = :name"
        node = f"local-{number + 1}"

        def mend() -> None:
            before = look(query, name=node)
            links.set(number, "open")
            self._recoveries.watch(
                "link mended, node heard again",
                lambda: look(query, name=node) not in ([], before),
            )

        links.set(number, mode)
        self._lasts(name, for_s, mend)
        self._say(f"- {mode} {name} for {for_s:.1f} s")
        return True

    def _may_hit_all(self) -> bool:
        """Whether each trial that holds slots may be made to start again; then it counts as hit."""
        holding = {
            int(row[0])
            for row in self._world.look(
                "SELECT id FROM trials WHERE state IN ('STARTING', 'RUNNING')"
            )
        }
        ready = {trial for trial in self.ready() if self._hits[trial] < self._hits_max}
        if not holding or not holding <= ready:
            return False
        self._hits.update(holding)
        return True

    def _lasts(self, name: str, for_s: float, undo: Callable[[], None]) -> None:
        """Undo it after so long, in a thread of its own."""

        def end() -> None:
            try:
                undo()
            except BaseException as error:
                self._failures.append(error)
            finally:
                self._lasting.pop(name, None)

        timer = threading.Timer(for_s, end)
        self._lasting[name] = timer
        timer.start()


def _thaw(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):  # killed meanwhile
        process.resume()


def _trial_of(process: psutil.Process, what: str) -> int | None:
    """Of which trial it is a shim or a rank; None: it is neither."""
    if what == "shim":
        return trial_of_shim(process)
    try:
        command, environment = process.cmdline(), process.environ()
    except (psutil.Error, OSError):
        return None
    if what == "rank" and "RANK" in environment and "support.nodes.scripted" in command:
        return int(environment["MUSTER_TRIAL_ID"])
    return None


def trial_of_shim(process: psutil.Process) -> int | None:
    """Of which trial it is a shim; None: it is none, or has ended."""
    try:
        command = process.cmdline()
        if "muster_agent.shim" not in command:
            return None
        folder = Path(command[command.index("--dir") + 1])
        spec = json.loads((folder / "spec.json").read_text())
    except (psutil.Error, OSError, ValueError):
        return None
    return int(spec["trial_id"])

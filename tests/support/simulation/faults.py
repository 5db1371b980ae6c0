"""What goes wrong, when, and how it is put right again."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from . import invariants
from .computer import Computer
from .control_plane import ApiServer
from .scenario import Fault, FaultKind, Weather
from .witness import Change

if TYPE_CHECKING:
    from .world import World

_OF_THE_NODE = ("cut", "agent_kill", "node_crash")
"""Faults after which its silence is a node's own; all others are of the control plane."""
AIMED_DELAY_S = 0.3
"""A fault that is aimed at a moment comes at most so long after it."""


class Faults:
    def __init__(self, world: World) -> None:
        self._world = world
        self._aimed: list[Fault] = []
        self._is_over = False
        self._hold_depth = 0

    def plan(self) -> None:
        for fault in self._world.scenario.faults:
            if fault.aimed_at is None:
                self._world.loop.call_at(fault.at_s, self._happen, fault)
            else:
                self._aimed.append(fault)

    def notice(self, change: Change) -> None:
        """The moment some fault waits for may have come."""
        for fault in list(self._aimed):
            if fault.aimed_at == (change.what, change.after):
                self._aimed.remove(fault)
                delay_s = self._world.rng.choice([0.0, self._world.rng.uniform(0, AIMED_DELAY_S)])
                self._world.loop.call_later(delay_s, self._happen, fault)

    def undo_all(self) -> None:
        """Nothing is broken any more, and nothing will be."""
        self._is_over = True
        world = self._world
        world.network.weather = Weather(
            loss=0, duplication=0, delay_s=0.02, late=0, hint_loss=world.network.weather.hint_loss
        )
        world.are_hints_heard = True
        world.database.is_away = False
        for api in world.apis:
            api.start()
            api.thaw()
        for computer in world.computers:
            self._heal(computer)
            computer.boot()
            computer.start_agent()
        for controller in world.controllers:
            if not controller.is_up:
                controller.start()

    # ---- one by one

    def _happen(self, fault: Fault) -> None:
        if self._is_over:
            return
        world = self._world
        done = world.history.faults
        done[fault.kind] = done.get(fault.kind, 0) + 1
        computer = world.computers[fault.target % len(world.computers)]
        controller = world.controllers[fault.target % len(world.controllers)]
        later = world.loop.call_later
        if fault.kind in _OF_THE_NODE:
            # From now on, and as long as it lasts, silence is its own.
            computer.note_trouble()
        match fault.kind:
            case "cut":
                self._cut([computer], fault)
            case "cut_all":
                self._cut(world.computers, fault)
            case "proxy_away":
                behind = world.computers if fault.flavor == "all" else self._behind(fault.target)
                # One of several alone is a node that is cut off: nobody can tell the difference.
                if len(behind) > 1 or len(world.computers) == 1:
                    self._cut(
                        behind, dataclasses.replace(fault, flavor="both", kind=self._seen(behind))
                    )
            case "api_down":
                for api in self._servers(fault):
                    world.trace(api.name, f"crashes for {fault.duration_s:.1f} s")
                    api.crash()
                    later(fault.duration_s, self._api_is_back, api)
            case "api_freeze":
                for api in self._servers(fault):
                    world.trace(api.name, f"freezes for {fault.duration_s:.1f} s")
                    api.freeze()
                    later(fault.duration_s, self._api_goes_on, api)
            case "database_away":
                world.trace("database", f"is away for {fault.duration_s:.1f} s")
                world.database.is_away = True
                later(fault.duration_s, self._database_is_back)
            case "controller_kill":
                controller.plan_trouble("kill", fault.duration_s, int(fault.amount))
            case "controller_freeze":
                controller.plan_trouble("freeze", fault.duration_s, int(fault.amount))
            case "agent_kill":
                computer.kill_agent()
                later(fault.duration_s, computer.start_agent)
            case "shim_kill" | "worker_kill":
                self._kill_process(fault)
            case "node_crash":
                if fault is world.scenario.crash:
                    invariants.judge_outages(world)
                if computer.is_up:
                    computer.crash(fault.flavor)
                    later(fault.duration_s, computer.boot)
            case "server_clock":
                world.trace("api", f"its wall clock jumps by {fault.amount:g} s")
                for api in world.apis:
                    api.clock.skew_s += fault.amount
                for each in world.controllers:
                    each.clock.skew_s += fault.amount
            case "node_clock":
                world.trace(computer.name, f"its wall clock jumps by {fault.amount:g} s")
                computer.clock.skew_s += fault.amount
            case "hints_lost":
                world.trace("redis", f"is away for {fault.duration_s:.1f} s")
                world.are_hints_heard = False
                later(fault.duration_s, self._hints_are_back)

    def _cut(self, computers: list[Computer], fault: Fault) -> None:
        world = self._world
        for computer in computers:
            world.trace(computer.name, f"is cut off ({fault.flavor}) for {fault.duration_s:.1f} s")
            computer.cuts.append(fault)
            _block(computer)
            computer.link.keeps = world.rng.random() < 0.5
            world.loop.call_later(fault.duration_s, self._mend, computer, fault)

    def _mend(self, computer: Computer, fault: Fault) -> None:
        if fault in computer.cuts:
            computer.cuts.remove(fault)
            _note_end(computer, fault)
        if computer.cuts:
            _block(computer)
        else:
            self._heal(computer)

    def _heal(self, computer: Computer) -> None:
        if not computer.link.is_whole:
            self._world.trace(computer.name, "is connected again")
        for fault in computer.cuts:
            _note_end(computer, fault)
        computer.cuts.clear()
        self._world.network.heal(computer.link)

    def _servers(self, fault: Fault) -> list[ApiServer]:
        apis = self._world.apis
        return [apis[fault.target % len(apis)]] if fault.flavor == "one" else apis

    def _seen(self, behind: list[Computer]) -> FaultKind:
        """Return what the silence of these computers looks like: where only one of them has ever been
        heard, like that of one node."""
        known = {name for (name,) in self._world.witness.rows("SELECT name FROM nodes")}
        heard = [computer for computer in behind if computer.name in known]
        if len(heard) != 1 or known == {heard[0].name}:
            return "proxy_away"
        heard[0].note_trouble()
        return "cut"

    def _behind(self, target: int) -> list[Computer]:
        """The computers that reach the server of this number alone."""
        world = self._world
        api = world.apis[target % len(world.apis)]
        return [computer for computer in world.computers if world.api_of(computer) is api]

    def _api_is_back(self, api: ApiServer) -> None:
        if not api.is_up:
            self._world.trace(api.name, "is back")
            api.start()

    def _api_goes_on(self, api: ApiServer) -> None:
        if api.is_frozen:
            self._world.trace(api.name, "goes on")
            api.thaw()

    def _database_is_back(self) -> None:
        if self._world.database.is_away:
            self._world.trace("database", "is back")
            self._world.database.is_away = False

    def _hints_are_back(self) -> None:
        self._world.are_hints_heard = True

    def _kill_process(self, fault: Fault) -> None:
        found = [s for c in self._world.computers for s in c.living() if s.is_alive]
        if not found:
            return
        shim = found[fault.target % len(found)]
        if fault.kind == "worker_kill":
            self._world.trace(shim.computer.name, f"a worker of {shim.gang.key} is killed")
            shim.kill_worker()
        elif shim.computer.has_agent or shim.spec.on_disconnect == "continue":
            # With agent and shim both gone nobody is left to keep the promise of "stop".
            self._world.trace(shim.computer.name, f"the shim of {shim.gang.key} is killed")
            shim.die(with_workers=False)


def _block(computer: Computer) -> None:
    """What one of several cuts takes away stays away until that one has ended."""
    computer.link.up = all(cut.flavor == "down" for cut in computer.cuts)
    computer.link.down = all(cut.flavor == "up" for cut in computer.cuts)


def _note_end(computer: Computer, cut: Fault) -> None:
    if cut.kind == "cut":
        computer.note_trouble()

"""What goes wrong, when, and how it is put right again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .computer import Computer
from .scenario import Fault, Weather
from .witness import Change

if TYPE_CHECKING:
    from .world import World

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
        world.api.is_up = True
        for computer in world.computers:
            world.network.heal(computer.link)
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
        match fault.kind:
            case "cut":
                self._cut([computer], fault)
            case "cut_all":
                self._cut(world.computers, fault)
            case "api_down":
                world.trace("api", f"crashes for {fault.duration_s:.1f} s")
                world.api.crash()
                later(fault.duration_s, self._api_is_back)
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
                if computer.is_up:
                    computer.crash(fault.flavor)
                    later(fault.duration_s, computer.boot)
            case "server_clock":
                world.trace("api", f"its wall clock jumps by {fault.amount:g} s")
                world.api.clock.skew_s += fault.amount
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
            computer.link.up = fault.flavor == "down"
            computer.link.down = fault.flavor == "up"
            computer.link.keeps = world.rng.random() < 0.5
            world.loop.call_later(fault.duration_s, self._heal, computer)

    def _heal(self, computer: Computer) -> None:
        if not computer.link.is_whole:
            self._world.trace(computer.name, "is connected again")
            self._world.network.heal(computer.link)

    def _api_is_back(self) -> None:
        if not self._world.api.is_up:
            self._world.trace("api", "is back")
            self._world.api.is_up = True

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

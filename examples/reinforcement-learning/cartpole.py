"""A pole on a cart, a policy, and how processes send each other tensors over HTTP."""

import io
import math
import time
import urllib.error
import urllib.request
from typing import Any

import torch
from torch import nn

import muster

STEPS_MAX = 200
"""Steps after which an episode ends at the latest; the return of an episode is its number of steps."""


def make_policy() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))


@torch.no_grad()
def play(
    policy: nn.Module, num_episodes: int, generator: torch.Generator, *, greedy: bool = False
) -> dict[str, torch.Tensor]:
    """Play episodes side by side. Return states (steps, episodes, 4), actions (steps, episodes), and
    which of the steps each episode lived to see."""
    state = torch.rand(num_episodes, 4, generator=generator) * 0.1 - 0.05
    lives = torch.ones(num_episodes, dtype=torch.bool)
    states, actions, lived = [], [], []
    while lives.any() and len(states) < STEPS_MAX:
        logits = policy(state)
        if greedy:
            action = logits.argmax(1)
        else:
            action = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
        states.append(state)
        actions.append(action)
        lived.append(lives)
        state = _move(state, action)
        lives = lives & (state[:, 0].abs() < 2.4) & (state[:, 2].abs() < math.radians(12))
    return {
        "states": torch.stack(states),
        "actions": torch.stack(actions),
        "lived": torch.stack(lived),
    }


def _move(state: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    x, speed, angle, turning = state.unbind(1)
    force = action.float() * 20 - 10
    push = (force + 0.05 * turning**2 * angle.sin()) / 1.1
    turn = (9.8 * angle.sin() - angle.cos() * push) / (0.5 * (4 / 3 - 0.1 * angle.cos() ** 2 / 1.1))
    pull = push - 0.05 * turn * angle.cos() / 1.1
    return torch.stack(
        [x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * turning, turning + 0.02 * turn], 1
    )


def pack(tensors: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(tensors, buffer)
    return buffer.getvalue()


def unpack(data: bytes) -> Any:
    return torch.load(io.BytesIO(data), weights_only=True)


def ask(address: str, path: str, data: bytes | None = None) -> bytes:
    """Send a request to another member, and send it again until somebody answers: members start in
    any order, and one that was killed comes back at the same address. Ends the process if it is asked
    to stop meanwhile."""
    while True:
        try:
            with urllib.request.urlopen(f"http://{address}{path}", data, timeout=30) as reply:
                return bytes(reply.read())
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            if muster.should_stop():
                raise SystemExit(0) from None
            time.sleep(0.2)

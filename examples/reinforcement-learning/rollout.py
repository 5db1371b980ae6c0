"""Play with the newest policy and send what happened to the trainer, until asked to stop."""

import os

import torch
from cartpole import ask, make_policy, pack, play, unpack

import muster


def main() -> None:
    muster.init()
    index = int(os.environ["MUSTER_ROLE_INDEX"])
    trainer = os.environ["MUSTER_ROLE_TRAINER_ADDRESSES"]
    generator = torch.Generator().manual_seed(index)
    policy = make_policy()
    print(f"rollout worker {index} of {os.environ['MUSTER_ROLE_COUNT']} begins", flush=True)
    while not muster.should_stop():
        newest = unpack(ask(trainer, "/policy"))
        policy.load_state_dict(newest["policy"])
        batch = play(policy, 16, generator)
        ask(trainer, "/trajectories", pack(batch))
        # The trainer's step, so that a worker that is started again goes on where it was.
        value = batch["lived"].sum(0).float().mean().item()
        muster.log({"rollout/return": value}, step=newest["step"])
    print("asked to stop", flush=True)


if __name__ == "__main__":
    main()

"""Plain DDP, no Muster in sight: torchrun --standalone --nproc-per-node 2 train.py"""

import argparse
import time

import torch
import torch._dynamo  # see main
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    train(args.epochs, args.lr)
    # The model is gone by now, as it must be: DDP holds the process group, and if it were the last
    # to do so, it would wait for gloo's threads while these wait for the interpreter (torch 2.13).
    # The first optimizer imports torch._dynamo, which keeps the functions that are then under way
    # with all that they hold, the model among it: so it is imported before.
    dist.destroy_process_group()
    # A thread of gloo may still be letting go of the last all-reduce, for which it needs Python. An
    # interpreter that ends meanwhile is aborted by it (torch 2.13; not with NCCL).
    time.sleep(0.5)


def train(epochs: int, lr: float) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)

    digits = load_digits()
    x = torch.tensor(digits.images / 16.0, dtype=torch.float32)[:, None][rank::world_size]
    y = torch.tensor(digits.target, dtype=torch.int64)[rank::world_size]
    # Equal shares: a rank with one batch more would wait for the others forever.
    num_batches = 1797 // world_size // 32

    model = DistributedDataParallel(
        nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(256, 10),
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    for epoch in range(epochs):
        order = torch.randperm(len(x))
        for i in range(num_batches):
            chosen = order[i * 32 : (i + 1) * 32]
            loss = nn.functional.cross_entropy(model(x[chosen]), y[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"rank {rank} epoch {epoch + 1}/{epochs} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()

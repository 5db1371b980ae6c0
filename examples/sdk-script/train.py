"""Plain DDP with Muster's SDK. Runs unchanged without Muster:
torchrun --standalone --nproc-per-node 2 train.py"""

from collections.abc import Mapping
from typing import Any

import torch
import torch._dynamo  # see main
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import muster


def main() -> None:
    run = muster.init(hparams={"lr": 2e-3, "epochs": 8, "batch_size": 32})
    dist.init_process_group(muster.backend("gloo"))  # gloo, with its collectives timed
    train(run.get_hparams())
    # The model is gone by now, as it must be: DDP holds the process group, and if it were the last
    # to do so, it would wait for gloo's threads while these wait for the interpreter (torch 2.13).
    # The first optimizer imports torch._dynamo, which keeps the functions that are then under way
    # with all that they hold, the model among it: so it is imported before.
    dist.destroy_process_group()


def train(hparams: Mapping[str, Any]) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)

    digits = load_digits()
    images = torch.tensor(digits.images / 16.0, dtype=torch.float32)[:, None]
    labels = torch.tensor(digits.target, dtype=torch.int64)
    train_x, train_y = images[rank:1500:world_size], labels[rank:1500:world_size]
    val_x, val_y = images[1500:], labels[1500:]
    batch_size = int(hparams["batch_size"])
    steps_per_epoch = 1500 // world_size // batch_size
    num_steps = int(hparams["epochs"]) * steps_per_epoch

    net = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 10),
    )
    optimizer = torch.optim.AdamW(net.parameters(), lr=float(hparams["lr"]))
    step = 0
    if (folder := muster.resume_folder()) is not None:
        saved = torch.load(folder / "state.pt", weights_only=True)
        net.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    model = DistributedDataParallel(net)

    timer = muster.StepTimer()
    timer.watch(model, optimizer)
    while step < num_steps:
        with timer.phase("data_wait"):
            generator = torch.Generator().manual_seed(step)
            chosen = torch.randint(0, len(train_x), (batch_size,), generator=generator)
            x, y = train_x[chosen], train_y[chosen]
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        epoch = step / steps_per_epoch
        timer.end_step(
            step,
            samples=batch_size,
            metrics={"train/loss": loss},
            epoch=epoch,
            num_steps_planned=num_steps,
        )

        stop = muster.should_stop(agree=True)
        if rank == 0 and (stop or step % steps_per_epoch == 0):
            with timer.pause(), torch.no_grad():
                logits = net(val_x)
                val = {
                    "val/loss": nn.functional.cross_entropy(logits, val_y),
                    "val/accuracy": (logits.argmax(1) == val_y).float().mean(),
                }
                muster.log(val, step=step, epoch=epoch)
                print(
                    f"epoch {epoch:.0f} val/accuracy {float(val['val/accuracy']):.3f}", flush=True
                )
            with (
                timer.checkpoint(),
                muster.checkpoint(step=step, epoch=epoch, metrics=val) as folder,
            ):
                state = {
                    "model": net.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "step": step,
                }
                torch.save(state, folder / "state.pt")
        if stop:
            break


if __name__ == "__main__":
    main()

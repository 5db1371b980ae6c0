"""DeepSpeed's ZeRO under torchrun, as Muster starts it: no hostfile and no launcher of its own."""

import argparse
import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")  # without this line it takes the GPUs

import deepspeed
import torch

import muster

parser = argparse.ArgumentParser()
parser.add_argument("--stage", type=int, default=1)
parser.add_argument("--steps", type=int, default=20)
args = parser.parse_args()

deepspeed.init_distributed("gloo" if os.environ["DS_ACCELERATOR"] == "cpu" else "nccl")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 16,
        "gradient_accumulation_steps": 2,
        "zero_optimization": {"stage": args.stage},
        # torch's own Adam: DeepSpeed's compiles an operator first.
        "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    },
)
generator = torch.Generator().manual_seed(engine.global_rank)
weights = torch.linspace(-1, 1, 8)
for step in range(1, 2 * args.steps + 1):
    x = torch.randn(16, 8, generator=generator)
    loss = (engine(x).squeeze(1) - x @ weights).square().mean()
    engine.backward(loss)
    engine.step()
    if engine.global_rank == 0 and step % 2 == 0:
        muster.log({"train/loss": loss.item()}, step=step // 2)

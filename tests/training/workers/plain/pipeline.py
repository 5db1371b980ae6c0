"""A script that says nothing of Muster: two stages that send each other activations and gradients."""

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
stage = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
optimizer = torch.optim.SGD(stage.parameters(), lr=0.01)
loss = torch.zeros(1)
for _ in range(4):
    for _ in range(2):
        if rank == 0:
            y = stage(torch.randn(4, 16))
            dist.send(y.detach(), dst=1)
            gradient = torch.empty_like(y)
            dist.recv(gradient, src=1)
            y.backward(gradient)
        else:
            x = torch.empty(4, 16)
            received = dist.irecv(x, src=0)
            assert received is not None
            received.wait()
            x.requires_grad_()
            loss = stage(x).square().mean().reshape(1)
            loss.backward()
            assert x.grad is not None
            sent = dist.isend(x.grad, dst=0)
            assert sent is not None
            sent.wait()
    optimizer.step()
    optimizer.zero_grad()
    shown = loss.detach().clone()
    dist.broadcast(shown, src=1)
dist.barrier()
dist.destroy_process_group()

"""A script that says nothing of Muster, and does with modules and gradients what torch offers.

Prints what comes of it: losses, traced code, how often torch.compile compiled.
"""

import copy
import inspect
import pickle
import threading

import torch
from torch import nn
from torch._dynamo.utils import counters


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, module: float = 1.0) -> torch.Tensor:
        with torch.no_grad():
            scale = x.abs().mean() * module
        return self.second(self.first(x).relu()) * scale


class Calls(Net):
    def __call__(self, *args: torch.Tensor, **kwargs: float) -> torch.Tensor:
        return super().__call__(*args, **kwargs) + 1


def told(name: str, value: object) -> None:
    print(f"told {name} {value}", flush=True)


torch.manual_seed(0)
x = torch.arange(8.0).reshape(2, 4)
net, calls = Net(), Calls()
optimizer = torch.optim.Adam([*net.parameters(), *calls.parameters()], lr=1e-2)
for _ in range(3):  # from the second step on, phases are followed
    (net(x, module=2.0) + calls(x)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

told("signature", inspect.signature(net.__call__))
told("name", f"{nn.Module.__call__.__qualname__} {torch.no_grad.__exit__.__qualname__}")
told("scripted", torch.jit.script(net)(x).tolist())
told("script", torch.jit.script(net).code)
told("traced", torch.jit.trace(net, (x,))(x).tolist())
told("graph", torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU())).code)
told("exported", torch.export.export(net, (x,)).graph)
told("pickled", pickle.loads(pickle.dumps(net))(x).tolist())
told("copied", copy.deepcopy(calls)(x).tolist())
parameters = dict(net.named_parameters())
told("functional", torch.func.functional_call(net, parameters, (x,), {"module": 3.0}).tolist())


def loss_of(weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return torch.func.functional_call(net, weights, (x,)).sum()


per_sample = torch.func.vmap(torch.func.grad(loss_of), in_dims=(None, 0))(parameters, x[:, None])
told("per sample", per_sample["second.bias"].tolist())
needs = x.clone().requires_grad_()
(slope,) = torch.autograd.grad(net(needs).sum(), needs, create_graph=True)
slope.square().sum().backward()
told("second order", net.first.weight.grad.sum().item())


@torch.no_grad()
def evaluated(model: nn.Module) -> list[float]:
    return model(x).flatten().tolist()


told("evaluated", evaluated(net))
with torch.inference_mode():
    told("inference", net(x).tolist())
seen: list[float] = []
thread = threading.Thread(target=lambda: seen.extend(evaluated(net)))
thread.start()
thread.join()
told("thread", seen)

hooked = Net()
hooked.first.register_forward_hook(lambda *_: None)


def both(x: torch.Tensor) -> torch.Tensor:
    return hooked(x) + calls(x)


compiled = [torch.compile(m, backend="eager") for m in (Net(), hooked, calls, both)]
in_place = Net()
in_place.compile(backend="eager")
for _ in range(3):
    for function in (*compiled, in_place):
        function(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        told("compiled", [function(x).sum().item() for function in compiled])
told("compiles", {name: dict(counters[name]) for name in ("stats", "graph_break", "frames")})

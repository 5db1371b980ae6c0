"""A script that says nothing of Muster: what torch.distributed offers, each call with what came of it."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh

dist.init_process_group("gloo", timeout=dt.timedelta(seconds=60))
rank = dist.get_rank()
other = 1 - rank


def mine() -> torch.Tensor:
    return torch.arange(4.0) + 10 * rank


def like() -> list[torch.Tensor]:
    return [torch.zeros(4) for _ in range(2)]


def tell(name: str, call: Callable[[], Any]) -> None:
    try:
        result = call()
    except Exception as error:
        result = type(error).__name__
    if isinstance(result, torch.Tensor):
        result = result.tolist()
    print(f"told {name}: {result}", flush=True)


def after(call: Callable[..., Any], value: Any, *args: Any, **kwargs: Any) -> Any:
    call(*args, **kwargs)
    return value


def in_place(call: Callable[..., Any], *args: Any, **kwargs: Any) -> torch.Tensor:
    x = mine()
    work = call(x, *args, **kwargs)
    if work is not None:
        work.wait()
    return x


def object_list() -> list[Any]:
    found: list[Any] = [{"a": 1}] if rank == 0 else [None]
    dist.broadcast_object_list(found)
    return found


def gathered_objects() -> list[Any]:
    found: list[Any] = [None, None]
    dist.all_gather_object(found, {"rank": rank})
    return found


def gathered() -> list[Any]:
    parts = like() if rank == 0 else None
    dist.gather(mine(), parts)
    return [p.tolist() for p in parts or []]


def scattered() -> torch.Tensor:
    x = torch.zeros(4)
    dist.scatter(x, [mine(), mine() + 1] if rank == 0 else None)
    return x


def messages() -> torch.Tensor:
    x = torch.zeros(4)
    if rank == 0:
        dist.send(mine(), 1)
        dist.recv(x, 1)
    else:
        dist.recv(x)  # from anybody
        dist.send(mine(), 0)
    return x


def batched() -> torch.Tensor:
    x = torch.zeros(4)
    ops = [dist.P2POp(dist.isend, mine(), other), dist.P2POp(dist.irecv, x, other)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return x


def lists(call: Callable[..., Any], *args: Any) -> list[Any]:
    parts = like()
    call(parts, *args)
    return [p.tolist() for p in parts]


def single(call: Callable[..., Any], size: int, x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(size)
    call(out, x)
    return out


def with_future() -> Any:
    future = dist.all_reduce(mine(), async_op=True).get_future()
    return future.then(lambda f: f.value()[0].sum().item()).wait()


def states() -> Any:
    work = dist.all_reduce(mine(), async_op=True)
    work.wait()
    return work.is_completed(), work.exception()


def coalesced() -> Any:
    a, b = mine(), mine()
    dist.all_reduce_coalesced([a, b])
    return a.tolist(), b.tolist()


def gathered_coalesced() -> Any:
    parts = [like() for _ in range(2)]
    dist.all_gather_coalesced(parts, [mine(), mine()])
    return [[p.tolist() for p in part] for part in parts]


def managed() -> Any:
    a, b = mine(), mine()
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.all_reduce(a)
        dist.all_reduce(b)
    manager.wait()
    return a.tolist(), b.tolist()


def sub_group() -> Any:
    group = dist.new_group([0])
    x = mine()
    if rank == 0:
        dist.all_reduce(x, group=group)
    return x.tolist(), dist.get_backend(group) if rank == 0 else None


def sub_groups() -> Any:
    group, _ = dist.new_subgroups(1)
    return dist.get_process_group_ranks(group), dist.get_rank(group)


def mesh() -> Any:
    found = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    group = found.get_group("dp")
    x = functional.all_reduce(mine(), "sum", group)
    return x.tolist(), group.size(), group.rank(), group.name()


world = dist.group.WORLD
tell("backend", dist.get_backend)
tell("config", dist.get_backend_config)
tell("name", lambda: world.name())
tell("all_reduce", lambda: in_place(dist.all_reduce))
tell("all_reduce max", lambda: in_place(dist.all_reduce, op=dist.ReduceOp.MAX, async_op=True))
tell("all_reduce avg", lambda: in_place(dist.all_reduce, op=dist.ReduceOp.AVG))
tell("group's all_reduce", lambda: in_place(lambda x: world.allreduce([x])))
tell("group's broadcast", lambda: in_place(lambda x: world.broadcast(x, 0)))
tell("broadcast", lambda: in_place(dist.broadcast, 1))
tell(
    "reduce",
    lambda: in_place(dist.reduce, 0).tolist() if rank == 0 else in_place(dist.reduce, 0) is None,
)
tell("all_gather", lambda: lists(dist.all_gather, mine()))
tell("all_gather single", lambda: single(dist.all_gather_into_tensor, 8, mine()))
tell("reduce_scatter", lambda: single(dist.reduce_scatter_tensor, 4, torch.arange(8.0)))
tell("reduce_scatter lists", lambda: single(dist.reduce_scatter, 4, [mine(), mine()]))
tell("all_to_all", lambda: lists(dist.all_to_all, [mine(), mine() + 1]))
tell("all_to_all single", lambda: single(dist.all_to_all_single, 4, mine()))
tell("gather", gathered)
tell("scatter", scattered)
tell("objects", object_list)
tell("gathered objects", gathered_objects)
tell("messages", messages)
tell("batched", batched)
tell("future", with_future)
tell("states", states)
tell("coalesced", coalesced)
tell("gathered coalesced", gathered_coalesced)
tell("managed", managed)
tell("barrier", dist.barrier)
tell("monitored barrier", lambda: dist.monitored_barrier(timeout=dt.timedelta(seconds=30)))
tell("sub-group", sub_group)
tell("sub-groups", sub_groups)
tell("mesh", mesh)
tell("wrong size", lambda: single(dist.all_gather_into_tensor, 7, mine()))
tell("wrong kind", lambda: dist.all_reduce([1, 2]))  # type: ignore[arg-type]
tell("no such backend", lambda: dist.new_group(backend="smoke"))
tell("timeout", lambda: after(dist.distributed_c10d._set_pg_timeout, 1, dt.timedelta(seconds=50)))
tell("again", lambda: dist.init_process_group("gloo"))
tell("destroy", dist.destroy_process_group)
tell("is over", dist.is_initialized)

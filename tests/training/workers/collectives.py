"""Every kind of collective through the measured group: right result, right record. Two workers."""

import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import muster
from muster.measure.collectives import log
from muster.measure.progress import watch

muster.init()
dist.init_process_group(muster.backend("gloo"))
rank = dist.get_rank()
other = 1 - rank
muster.StepTimer()


def recorded(kind: str, num_bytes: int, group: str = "world") -> None:
    records, overhead_ns = log.take()
    assert [(r.kind, r.num_bytes, r.group) for r in records] == [(kind, num_bytes, group)], records
    assert records[0].end > records[0].launched > 0
    assert overhead_ns > 0


def mine() -> torch.Tensor:
    return torch.arange(4.0) + 10 * rank  # rank 0: 0 1 2 3, rank 1: 10 11 12 13


both = torch.cat([torch.arange(4.0), torch.arange(4.0) + 10])

x = mine()
dist.all_reduce(x)
assert x.tolist() == [10, 12, 14, 16]
recorded("all_reduce", 16)

x = mine()
work = dist.all_reduce(x, async_op=True)
work.wait()
assert x.tolist() == [10, 12, 14, 16]
recorded("all_reduce", 16)

x = mine()
dist.broadcast(x, 1)
assert x.tolist() == [10, 11, 12, 13]
recorded("broadcast", 16)

x = mine()
dist.reduce(x, 0)
assert rank == 1 or x.tolist() == [10, 12, 14, 16]
recorded("reduce", 16)

out = [torch.zeros(4), torch.zeros(4)]
dist.all_gather(out, mine())
assert torch.equal(torch.cat(out), both)
recorded("all_gather", 32)

out = torch.zeros(8)
dist.all_gather_into_tensor(out, mine())
assert torch.equal(out, both)
recorded("all_gather", 32)

out = torch.zeros(2)
dist.reduce_scatter_tensor(out, mine())
assert out.tolist() == ([10, 12] if rank == 0 else [14, 16])
recorded("reduce_scatter", 16)

out = torch.zeros(4)
dist.all_to_all_single(out, mine())
assert out.tolist() == ([0, 1, 10, 11] if rank == 0 else [2, 3, 12, 13])
recorded("all_to_all", 16)

out = torch.zeros(2)
dist.scatter(out, [torch.ones(2), torch.ones(2) * 2] if rank == 0 else None, src=0)
assert out.tolist() == [rank + 1.0] * 2
log.take()

out = [torch.zeros(4), torch.zeros(4)] if rank == 0 else None
dist.gather(mine(), out, dst=0)
assert rank == 1 or torch.equal(torch.cat(out), both)
log.take()

x = mine()
if rank == 0:
    dist.send(x, 1)
    recorded("send", 16)
else:
    assert dist.recv(x) == 0
    assert x.tolist() == [0, 1, 2, 3]
    recorded("recv", 16)

x = torch.zeros(4)
for work in dist.batch_isend_irecv(
    [dist.P2POp(dist.isend, mine(), other), dist.P2POp(dist.irecv, x, other)]
):
    work.wait()
assert x[0] == 10 * other
assert sorted(r.kind for r in log.take()[0]) == ["recv", "send"]

objects = [None, None]
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": 0}, {"rank": 1}]
log.take()

dist.barrier()
recorded("barrier", 0)

group = dist.new_group([0, 1], group_desc="mesh_tp")
log.take()
dist.all_reduce(torch.ones(3), group=group)
recorded("all_reduce", 12, "mesh_tp")

model = torch.nn.Linear(8, 8, bias=False)
fully_shard(model)
log.take()
model(torch.ones(2, 8)).sum().backward()
kinds = [(r.kind, r.num_bytes) for r in log.take()[0]]
assert kinds == [("all_gather", 256), ("reduce_scatter", 256)], kinds

# Nobody looks before the wait: when the first one was over stays open, so the next gets a callback.
# One that the caller waits for at once needs none.
for is_told in (False, True):
    dist.barrier()
    log.take()
    work = dist.all_reduce(torch.ones(64), async_op=True)
    (record,) = log.take()[0]
    while not work._inner.is_completed():
        time.sleep(0.001)
    while is_told and not record.done:
        time.sleep(0.001)
    assert bool(record.done) is is_told
    time.sleep(0.001)
    waited = time.perf_counter_ns()
    work.wait()
    assert (record.end < waited) is is_told, (record.end, waited)
dist.all_reduce(torch.ones(65))
(record,) = log.take()[0]
assert not record.done
assert record.end == record.waits[0][2]

# What is over is known to be, and its tensors are let go: of every kind, also where gloo itself does
# not tell, and while nothing is measured.
log.enabled = False
for _ in range(3):
    dist.reduce_scatter_tensor(torch.zeros(2), mine())
    dist.reduce_scatter_tensor(torch.zeros(2), mine(), async_op=True).wait()
log.enabled = True
dist.all_reduce(torch.ones(1))
log.take()
for told in watch.look()["groups"]:
    assert told["num_enqueued"] == told["num_completed"] > 0, told

assert muster.should_stop(agree=True) is None
assert log.take()[0] == [], "Muster's own exchange must not be measured"
dist.destroy_process_group()

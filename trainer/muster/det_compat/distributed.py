"""DistributedContext: ranks, and collectives over Python objects."""

from __future__ import annotations

import os
from typing import Any

from muster.det_compat.exchange import Alone, Exchange, SocketStar, TorchObjects
from muster.sdk.env import rank_info


class DistributedContext:
    """This worker's place among the others. Every method but the ranks is a collective: all workers,
    or with `_local` all of the node, must call it."""

    def __init__(
        self,
        *,
        rank: int,
        size: int,
        local_rank: int,
        local_size: int,
        cross_rank: int,
        cross_size: int,
        chief_ip: str | None = None,
        pub_port: int = 12360,
        pull_port: int = 12376,
        port_offset: int = 0,
        force_tcp: bool = False,
    ) -> None:
        """Meet the other workers. On one node they meet at a Unix socket, on several ones at
        `chief_ip` over torch's gloo.

        Raises ValueError for ranks that cannot be, and TimeoutError when the others do not come.
        """
        del pull_port, force_tcp
        for name, number, most in (
            ("rank", rank, size),
            ("local_rank", local_rank, local_size),
            ("cross_rank", cross_rank, cross_size),
        ):
            if not 0 <= number < most:
                raise ValueError(f"{name}={number} is not between 0 and {most - 1}")
        self.rank, self.size = rank, size
        self.local_rank, self.local_size = local_rank, local_size
        self.cross_rank, self.cross_size = cross_rank, cross_size
        self._all: Exchange = Alone()
        self._local: Exchange = Alone()
        if size == 1:
            return
        if cross_size > 1 or _is_torch_ready():
            self._meet_over_torch(chief_ip, pub_port + port_offset)
        else:
            name = os.environ.get("MUSTER_ALLOCATION_ID", f"{chief_ip}:{pub_port + port_offset}")
            self._all = self._local = SocketStar(rank, size, name)

    def _meet_over_torch(self, chief_ip: str | None, port: int) -> None:
        import torch.distributed as dist

        if not dist.is_initialized():
            if chief_ip is None:
                raise ValueError("chief_ip is needed with workers on several nodes")
            port = int(os.environ.get("MASTER_PORT") or port)
            dist.init_process_group(
                "gloo",
                init_method=f"tcp://{chief_ip}:{port}",
                rank=self.rank,
                world_size=self.size,
            )
        self._all = TorchObjects(dist.new_group(backend="gloo"), 0)
        nodes: list[tuple[int, int]] = self._all.allgather((self.cross_rank, self.rank))
        for node in range(self.cross_size):
            members = [rank for cross_rank, rank in nodes if cross_rank == node]
            group = dist.new_group(members, backend="gloo")
            if node == self.cross_rank:
                self._local = TorchObjects(group, members[0])

    @classmethod
    def from_torch_distributed(cls, chief_ip: str | None = None) -> DistributedContext:
        """Return the place that torchrun gave to this worker."""
        info = rank_info()
        return cls(
            rank=info.rank,
            size=info.world_size,
            local_rank=info.local_rank,
            local_size=info.local_world_size,
            cross_rank=info.node_rank,
            cross_size=max(1, info.world_size // info.local_world_size),
            chief_ip=chief_ip or info.master_addr or None,
        )

    from_deepspeed = from_torch_distributed
    from_horovod = from_torch_distributed

    def get_rank(self) -> int:
        return self.rank

    def get_size(self) -> int:
        return self.size

    def get_local_rank(self) -> int:
        return self.local_rank

    def get_num_agents(self) -> int:
        return self.cross_size

    def gather(self, stuff: Any) -> list[Any] | None:
        """Return everybody's value on the chief, None elsewhere."""
        values = self._all.allgather(stuff)
        return values if self.rank == 0 else None

    def gather_local(self, stuff: Any) -> list[Any] | None:
        """Return the values of this node on its first worker, None elsewhere."""
        values = self._local.allgather(stuff)
        return values if self.local_rank == 0 else None

    def allgather(self, stuff: Any) -> list[Any]:
        """Return everybody's value, in order of rank."""
        return self._all.allgather(stuff)

    def allgather_local(self, stuff: Any) -> list[Any]:
        """Return the values of this node's workers, in order of rank."""
        return self._local.allgather(stuff)

    def broadcast(self, stuff: Any) -> Any:
        """Return the chief's value."""
        return self._all.broadcast(stuff)

    def broadcast_local(self, stuff: Any = None) -> Any:
        """Return the value of this node's first worker."""
        return self._local.broadcast(stuff)

    def close(self) -> None:
        self._all.close()
        self._local.close()


def _is_torch_ready() -> bool:
    import sys

    dist: Any = sys.modules.get("torch.distributed")
    return dist is not None and dist.is_available() and dist.is_initialized()

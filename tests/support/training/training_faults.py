"""What is done to trainings of the built-in trainer, to compare them with one that is left alone.

The tests do each of it; the tables in docs/concepts/checkpoints.md are made from this list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Fault:
    name: str
    on: Literal["agents", "workers"]
    """agents: a stack of real agents, tests/integration/outages/test_faults.py. workers: two processes of a
    training and their storage, tests/training/test_faults.py."""
    what: str
    then: str
    what_zh: str
    then_zh: str


FAULTS = [
    Fault(
        name="worker",
        on="agents",
        what="a worker is killed (`kill -9`)",
        then="all workers start again from the newest checkpoint",
        what_zh="一个工作进程被杀死（`kill -9`）",
        then_zh="所有工作进程从最新的检查点重新开始",
    ),
    Fault(
        name="shim",
        on="agents",
        what="the shim that watches the workers is killed",
        then="its workers are ended, and start again from the newest checkpoint",
        what_zh="看管工作进程的 shim 被杀死",
        then_zh="其工作进程被结束，从最新的检查点重新开始",
    ),
    Fault(
        name="agent",
        on="agents",
        what="the agent is killed",
        then="the workers train on in the same attempt",
        what_zh="代理被杀死",
        then_zh="工作进程在同一次尝试中继续训练",
    ),
    Fault(
        name="node",
        on="agents",
        what="the node is cut off for longer than its lease (`on_disconnect: stop`)",
        then="its workers are ended; on another node they start from the newest checkpoint",
        what_zh="节点失去联系的时间超过租约（`on_disconnect: stop`）",
        then_zh="其工作进程被结束，在另一个节点上从最新的检查点开始",
    ),
    Fault(
        name="shard",
        on="agents",
        what="one byte of the newest checkpoint is changed, then its shim is killed",
        then="it is passed over for the one before, and an event says so",
        what_zh="最新检查点的一个字节被改动，随后其 shim 被杀死",
        then_zh="跳过它，改用前一个，并有事件说明",
    ),
    Fault(
        name="killed",
        on="workers",
        what="a worker is killed while it writes its part",
        then="nothing of that step is published; it goes on from the one before",
        what_zh="一个工作进程在写自己那部分时被杀死",
        then_zh="这一步不发布任何东西，从前一个继续",
    ),
    Fault(
        name="disk-full",
        on="workers",
        what="the disk is full (ENOSPC; a file system of 1 MiB, where one may be mounted)",
        then="every worker ends with that error; it goes on from the one before",
        what_zh="磁盘已满（ENOSPC；在允许挂载时用 1 MiB 的文件系统）",
        then_zh="每个工作进程都以该错误结束，从前一个继续",
    ),
    Fault(
        name="cut-short",
        on="workers",
        what="the disk refuses in the middle of a file (EFBIG; a limit, as a quota is)",
        then="the same",
        what_zh="磁盘在一个文件的中途拒绝写入（EFBIG；像配额一样的限制）",
        then_zh="同上",
    ),
    Fault(
        name="publishing-refused",
        on="workers",
        what="the disk is full when the index is written, all parts being there (ENOSPC)",
        then="the same",
        what_zh="各部分都已写好，写索引时磁盘已满（ENOSPC）",
        then_zh="同上",
    ),
    Fault(
        name="damaged",
        on="workers",
        what="the newest checkpoint is cut short, and the one before has another byte",
        then="both are passed over, on every worker",
        what_zh="最新的检查点被截短，前一个有一个字节不同",
        then_zh="所有工作进程都跳过这两个",
    ),
    Fault(
        name="told-to-stop",
        on="workers",
        what="SIGTERM while a checkpoint is written",
        then="that one is finished, and the step at which all stop is saved, too",
        what_zh="写检查点时收到 SIGTERM",
        then_zh="写完这一个，并保存所有进程商定停止的那一步",
    ),
    Fault(
        name="bucket",
        on="workers",
        what="a worker is killed while it sends its part to an object store",
        then="that step has no manifest there and is no checkpoint; what it left goes",
        what_zh="一个工作进程在把自己那部分发往对象存储时被杀死",
        then_zh="那一步在那里没有清单，不算检查点；留下的东西会被清除",
    ),
]


def names(on: Literal["agents", "workers"]) -> set[str]:
    return {fault.name for fault in FAULTS if fault.on == on}

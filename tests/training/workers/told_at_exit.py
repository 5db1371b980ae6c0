"""End a process while another thread lets go of the callback of a collective, as on a machine that is held up."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable

import torch

from muster.measure import measured_group
from muster.measure.collectives import log

HELD_UP_S = 0.3
ENDING_S = 1.5
"""Much longer, so that the thread goes on while the interpreter ends."""

has_begun = threading.Event()
future: torch.futures.Future[None] = torch.futures.Future()


class Remainder:
    """Takes its time when the interpreter clears its modules."""

    seconds = ENDING_S

    def __del__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        sleep(self.seconds)


class Work:
    """One of gloo's that ends when the future does."""

    def get_future(self) -> torch.futures.Future[None]:
        return future

    def is_completed(self) -> bool:
        return future.done()


def be_held_up(_: object) -> None:
    has_begun.set()
    time.sleep(HELD_UP_S)


remainder = Remainder()
assert measured_group._Ends().tell(log.new("all_reduce", 4, "world"), Work())
(told,) = measured_group._told
callback = told()
assert callback is not None
held_up = weakref.ref(callback, be_held_up)  # the newest is called first
del callback
threading.Thread(target=future.set_result, args=(None,), daemon=True).start()
has_begun.wait()

"""Measure a script that knows nothing of Muster, and capture what its libraries log (see
`muster.capture`).

The agent has Python call `install` in each worker before the script's first line. When the script has
imported torch, hooks of torch tell where the training thread is:

* a step ends when the optimizer's `step` does (of several the one that steps first);
* `backward` is what happens inside `torch.autograd.backward`, which every `loss.backward()` calls;
* `data_wait` is waiting for a batch of a `DataLoader`, and `forward` what lies between a batch (without
  a `DataLoader`: the step before) and the backward: copies to the device and the loss are in it;
* batches fetched while gradients are switched off are validation, which is no part of a step;
* process groups over gloo are measured as by `muster.backend`, and still call themselves "gloo".

A script that makes a `StepTimer` of its own measures itself: then nothing is done here. What goes wrong
here is said once, ends the measuring, and never reaches the script.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import inspect
import os
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from muster import capture

if TYPE_CHECKING:
    import types
    from importlib.machinery import ModuleSpec

    from muster.measure.timing import StepTimer

MAX_STEPS_OF_ANOTHER = 3
"""Number of steps in a row of another optimizer after which that one ends the steps."""
MAX_DEPTH = 4
"""Depth to which the first tensor of a batch is searched for."""


STEPS = "steps"
"""What to attach to measure steps; the others are the routes of `muster.capture`."""


def install(what: Collection[str]) -> None:
    """Measure this process once it has imported torch, and capture what its libraries log once it
    has imported them. To be called before the script's first line; imports nothing but the standard
    library.

    what: `STEPS` and routes of `muster.capture`.
    """
    hooks = capture.hooks(what)
    if STEPS in what:
        hooks["torch"] = lambda _: _instrument()
    for name in hooks.keys() & sys.modules.keys():
        hooks.pop(name)(sys.modules[name])
    if hooks:
        sys.meta_path.insert(0, AfterImport(hooks))


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module that has been imported, once for each of these names."""

    def __init__(self, hooks: Mapping[str, Callable[[types.ModuleType], None]]) -> None:
        self._hooks = dict(hooks)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._hooks:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        loader = spec.loader
        if loader is None or not hasattr(loader, "exec_module"):
            return spec
        execute = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            execute(module)
            # Only now: who asks for a spec may want to know no more than whether there is one.
            hook = self._hooks.pop(name, None)
            if hook is not None:
                hook(module)

        loader.exec_module = exec_module  # type: ignore[method-assign] # of this one import
        return spec


def _instrument() -> None:
    """torch has been imported: put our hooks in."""
    try:
        _observer.watch_phases()
        _measure_gloo()
    except Exception as error:
        _give_up(error)


def _give_up(error: Exception) -> None:
    from muster.sdk.run import warn_once

    _observer.is_off = True
    warn_once(f"the script's steps are not measured: {type(error).__name__}: {error}")


# ---------------------------------------------------------------- process groups


def _measure_gloo() -> None:
    """Have process groups over gloo, and over nothing else, created as measured ones.

    torch knows them under the name the script gave: `get_backend()` answers as without us.
    """
    import torch.distributed as dist

    if not dist.is_available():
        return
    if sys.modules["torch"].accelerator.is_available():
        return  # the measured group takes tensors on the processor alone
    from torch.distributed import distributed_c10d as c10d

    from muster.measure import comm, measured_group
    from muster.sdk import env

    if c10d.get_debug_level() == c10d.DebugLevel.DETAIL:
        return  # then torch wraps groups itself
    create = c10d._new_process_group_helper
    signature = inspect.signature(create)
    if not {"backend", "group_desc", "group_rank", "group_size"} <= signature.parameters.keys():
        raise RuntimeError(f"torch {sys.modules['torch'].__version__} makes groups in another way")

    @functools.wraps(create)
    def create_measured(*args: Any, **kwargs: Any) -> Any:
        try:
            call = signature.bind(*args, **kwargs)
            given = call.arguments["backend"]
            config = c10d.BackendConfig(given)
            is_ours = str(call.arguments.get("group_desc") or "").startswith("muster_")
            if is_ours or set(config.get_device_backend_map().values()) != {"gloo"}:
                return create(*args, **kwargs)
            if env.joining is None:  # the first group is of all workers
                env.joining = (call.arguments["group_rank"], call.arguments["group_size"])
            if comm.backend("gloo") != measured_group.BACKEND:
                return create(*args, **kwargs)
        except Exception:  # torch says what is wrong with the arguments
            return create(*args, **kwargs)
        call.arguments["backend"] = c10d.Backend(measured_group.BACKEND)
        made = create(*call.args, **call.kwargs)
        group = made[0]
        if isinstance(group, measured_group.MeasuredGroup):
            group.be_called_gloo()
            c10d._world.pg_map[group] = (given, c10d._world.pg_map[group][1])
            c10d._world.pg_backend_config[group] = str(config)
        return made

    c10d._new_process_group_helper = create_measured


# ---------------------------------------------------------------- phases


def _hook(method: Callable[..., None]) -> Callable[..., None]:
    """Wrap a hook so that it runs only on the training thread of the training process, and its
    errors end the measuring."""

    @functools.wraps(method)
    def guarded(self: Observer, *args: Any, **kwargs: Any) -> None:
        if self.is_off or threading.get_ident() != self.thread:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            _give_up(error)

    return guarded


class Observer:
    """Follows one training thread from hook to hook, and reports to a StepTimer."""

    def __init__(self) -> None:
        self.is_off = False
        self.thread: int | None = None
        """Training thread: the first that steps an optimizer."""
        self._timer: StepTimer | None = None
        """Timer, created when the first step has ended: what precedes it is not a step."""
        self._leader: weakref.ref[Any] | None = None
        """Optimizer that ends the steps."""
        self._outer: weakref.ref[Any] | None = None
        """Optimizer that is stepping. It may step another one inside, as ZeRO's does."""
        self._num_of_others = 0
        self._step = 0
        self._phase = "other"
        self._has_fetched = False
        """Whether this step has a batch of a DataLoader."""
        self._samples: int | None = None
        self._num_replicas: int | None = None
        """Number of ranks over which the sampler distributes the data; None if unknown."""
        self._pause: contextlib.ExitStack | None = None
        """Context that is open while the script validates."""

    def watch_phases(self) -> None:
        import torch
        from torch.optim import optimizer
        from torch.utils.data import dataloader

        is_compiling = torch.compiler.is_compiling
        """Return whether torch.compile is tracing: compiled code must neither contain our hooks nor
        break on them."""

        def begins(stepping: Any, *_: Any) -> None:
            if not is_compiling():
                self.optimizer_begins(stepping)

        def ends(stepping: Any, *_: Any) -> None:
            if not is_compiling():
                self.optimizer_ends(stepping)

        optimizer.register_optimizer_step_pre_hook(begins)
        optimizer.register_optimizer_step_post_hook(ends)
        backward = torch.autograd.backward

        @functools.wraps(backward)
        def seen_backward(*args: Any, **kwargs: Any) -> None:
            if is_compiling():
                backward(*args, **kwargs)
                return
            before = self._phase
            self._enter("backward")
            try:
                backward(*args, **kwargs)
            finally:
                self._enter("other" if before == "forward" else before)

        torch.autograd.backward = seen_backward
        iterating = dataloader._BaseDataLoaderIter
        fetch = iterating.__next__

        @functools.wraps(fetch)
        def seen_fetch(iterator: Any) -> Any:
            self._fetch_begins(torch.is_grad_enabled())
            batch = None
            try:
                batch = fetch(iterator)
            finally:
                self._fetch_ends(iterator, batch)
            return batch

        iterating.__next__ = seen_fetch  # type: ignore[assignment]
        os.register_at_fork(after_in_child=self._forked)

    def _turn_off(self) -> None:
        self.is_off = True

    def _forked(self) -> None:
        """Turn off in a child of the process that trains. Before that, it is the child that will."""
        if self.thread is not None:
            self._turn_off()

    @_hook
    def _enter(self, phase: str) -> None:
        if self._timer is not None:
            self._resume()
            self._phase = phase
            self._timer.enter(phase)

    @_hook
    def _fetch_begins(self, is_training: bool) -> None:
        if self._timer is None:
            return
        if is_training:
            self._resume()
            self._enter("data_wait")
        elif self._pause is None:
            self._pause = contextlib.ExitStack()
            self._pause.enter_context(self._timer.pause())

    @_hook
    def _fetch_ends(self, iterator: Any, batch: Any) -> None:
        if self._timer is None or self._pause is not None:
            return
        self._has_fetched = True
        self._enter("other" if batch is None else "forward")
        batches = getattr(iterator, "_index_sampler", None)
        num = _num_samples(batch, getattr(batches, "batch_size", None))
        if num is not None:
            self._samples = (self._samples or 0) + num
            replicas = getattr(getattr(batches, "sampler", None), "num_replicas", None)
            self._num_replicas = replicas if isinstance(replicas, int) else None

    def _resume(self) -> None:
        if self._pause is not None:
            pause, self._pause = self._pause, None
            pause.close()

    def optimizer_begins(self, optimizer: Any) -> None:
        if self.thread is None:
            self.thread = threading.get_ident()
        self._begin_optimizer(optimizer)

    @_hook
    def _begin_optimizer(self, optimizer: Any) -> None:
        outer = self._outer() if self._outer is not None else None
        if outer is None or outer is optimizer:
            self._outer = weakref.ref(optimizer)
            self._enter("optimizer")

    @_hook
    def optimizer_ends(self, optimizer: Any) -> None:
        if self._outer is None or self._outer() is not optimizer:
            return
        self._outer = None
        self._enter("other")
        leader = self._leader() if self._leader is not None else None
        if leader is not None and leader is not optimizer:
            self._num_of_others += 1
            if self._num_of_others < MAX_STEPS_OF_ANOTHER:
                return
        if leader is not optimizer:
            self._leader = weakref.ref(optimizer)
        self._num_of_others = 0
        self._end_step()

    def _end_step(self) -> None:
        from muster.measure.progress import watch
        from muster.measure.timing import StepTimer
        from muster.sdk.run import current

        run = current()
        self._step += 1
        if self._timer is None:
            if watch.timer is not None or not run.measures_steps:
                self._turn_off()  # the script measures itself, or the document says no
                return
            self._step += run.resume_step
            self._timer = StepTimer(run=run)
            if run.info.rank == 0:
                run.message(
                    "Steps are measured from outside, because the script does not measure them: one ends "
                    "with the optimizer's step, and forward is what lies between a batch (without a "
                    "DataLoader: the step before) and the backward. measure.scripts: false "
                    "switches it off."
                )
        elif watch.timer is not self._timer:
            self._turn_off()
            return
        else:
            size = run.info.world_size
            num_of_all = None
            # Without a sampler that deals them out, several ranks may train on the same samples.
            if self._samples is not None and (size == 1 or self._num_replicas == size):
                num_of_all = self._samples * size
            self._timer.end_step(
                self._step,
                samples=self._samples,
                samples_of_all="unknown" if num_of_all is None else num_of_all,
            )
        if not self._has_fetched:
            self._enter("forward")
        self._has_fetched = False
        self._samples = None


_observer = Observer()


def _num_samples(batch: Any, most: Any) -> int | None:
    """Return the length of the first tensor in a batch; None if it has none."""
    for tensor in _tensors(batch, MAX_DEPTH):
        num = int(tensor.shape[0]) if tensor.ndim else 1
        return min(num, most) if isinstance(most, int) else num
    return None


def _tensors(value: Any, depth: int) -> Iterator[Any]:
    if isinstance(value, sys.modules["torch"].Tensor):
        yield value
    elif depth and isinstance(value, dict):
        for part in value.values():
            yield from _tensors(part, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part, depth - 1)

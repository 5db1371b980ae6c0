"""Measure a script that knows nothing of Muster, and capture what its libraries log (see
`muster.capture`).

The agent has Python call `install` in each worker before the script's first line. When the script has
imported torch, hooks of torch tell where the training thread is:

* a step ends when the optimizer's `step` does (of several the one that steps first);
* `forward` is what happens inside a module that no other module calls, with gradients on;
* `backward` is what happens inside autograd's engine: `loss.backward()`, `torch.autograd.grad`, and
  the forward that activation checkpointing repeats there;
* `data_wait` is waiting for a batch of a `DataLoader`, `checkpoint` is `torch.save`;
* `no_grad` lasts from the first module called with gradients off until they are on again;
* `other` is the rest: outside the model. A loss that is no module is in it;
* batches of a `DataLoader` fetched while gradients are off are validation, which is no part of a step;
* process groups over gloo are measured as by `muster.backend`, and still call themselves "gloo".

A script that makes a `StepTimer` of its own measures itself: then nothing is done here. What goes wrong
here is said once, ends the measuring, and never reaches the script.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster import capture
from muster.launch.after_import import call_after_import

if TYPE_CHECKING:
    from muster.measure.timing import StepTimer

MAX_STEPS_OF_ANOTHER = 3
"""Number of steps in a row of another optimizer after which that one ends the steps."""
MAX_DEPTH = 4
"""Depth to which the first tensor of a batch is searched for."""


AWAITING_MODULES = frozenset({"other", "no_grad", "optimizer"})
"""Phases that a module's call may end. An optimizer that is given a closure calls the model in it."""

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
        hooks["torch._dynamo.eval_frame"] = lambda dynamo: _observer.skip_tracing(dynamo)
    call_after_import(hooks)


def pass_on(what: Collection[str]) -> None:
    """Have what the processes that this worker starts log with libraries captured as well. They are not
    measured, and what they end by is not what the worker ends by."""
    routes = [route for route in what if route != STEPS]
    if not routes:
        return
    os.environ["MUSTER_ATTACH"] = " ".join(routes)
    os.environ["MUSTER_ATTACH_CHILD"] = "1"
    site = str(Path(__file__).parent / "attach_site")
    given = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{site}{os.pathsep}{given}" if given else site


def _instrument() -> None:
    """torch has been imported: put our hooks in."""
    try:
        _observer.watch_phases()
        _measure_gloo()
    except Exception as error:
        _give_up(error)


def _give_up(error: Exception) -> None:
    from muster.sdk.reporter import warn_once

    _observer.turn_off()
    warn_once(f"the script's steps are not measured: {type(error).__name__}: {error}")


# ---------------------------------------------------------------- process groups


def _measure_gloo() -> None:
    """Have process groups over gloo, and over nothing else, created as measured ones. What others do,
    and those of a machine with GPUs, is seen in windows of the profiler (`muster.measure.windows`).

    torch knows them under the name the script gave: `get_backend()` answers as without us.
    """
    import torch
    import torch.distributed as dist

    if not dist.is_available():
        return
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
            if str(call.arguments.get("group_desc") or "").startswith("muster_"):
                return create(*args, **kwargs)
            if env.joining is None:  # the first group is of all workers
                env.joining = (call.arguments["group_rank"], call.arguments["group_size"])
            is_gloo = set(config.get_device_backend_map().values()) == {"gloo"}
            # The measured group takes tensors on the processor alone.
            if not is_gloo or torch.accelerator.is_available():
                return create(*args, **kwargs)
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
        self._phase_before_optimizer = "other"
        self.awaits_module = False
        """Whether the next call of a module changes the phase. Every call of every module reads it:
        one test is all that a module inside another costs."""
        self._wrappers: list[Any] = []
        """Functions that torch calls in place of its own."""
        self._load_ns = 0
        """Time spent loading files before the first step had ended."""
        self._samples: int | None = None
        self._num_replicas: int | None = None
        """Number of ranks over which the sampler distributes the data; None if unknown."""
        self._pause: contextlib.ExitStack | None = None
        """Context that is open while the script validates."""

    def watch_phases(self) -> None:
        import torch
        from torch.autograd import grad_mode
        from torch.optim import optimizer
        from torch.utils.data import dataloader

        from muster.sdk.run import Run

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
        self._replace(torch.nn.Module, "__call__", self._seen_module)
        # What both `backward` and `grad` call, and torch.compile never traces.
        self._replace(torch.autograd, "_engine_run_backward", self._timed("backward"))
        self._replace(torch, "save", self._timed("checkpoint"))
        self._replace(torch, "load", self._seen_load)
        self._replace(Run, "checkpoint", self._seen_checkpoint)
        for context in (grad_mode.no_grad, grad_mode.set_grad_enabled, grad_mode.inference_mode):
            self._replace(context, "__exit__", self._seen_exit)
        self._replace(dataloader.DataLoader, "__iter__", self._seen_fetch)
        self._replace(dataloader._BaseDataLoaderIter, "__next__", self._seen_fetch)
        os.register_at_fork(after_in_child=self._forked)

    def _replace(self, owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
        function = getattr(owner, name)
        wrapped = functools.wraps(function)(wrapper(function))
        setattr(owner, name, wrapped)
        self._wrappers.append(wrapped)

    def skip_tracing(self, dynamo: Any) -> None:
        """Have torch.compile run our wrappers as it runs the functions of torch that they replace,
        instead of compiling them as if they were the script's. Called once `torch._dynamo.eval_frame`
        has been imported."""
        if hasattr(dynamo, "skip_code"):
            for wrapped in self._wrappers:
                dynamo.skip_code(wrapped.__code__)

    def _seen_module(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `torch.nn.Module.__call__`. Global hooks would send every module inside another the
        slow way of torch, and torch.compile warns of them."""
        from torch.compiler import is_compiling, is_dynamo_compiling

        def called(*args: Any, **kwargs: Any) -> Any:
            # The first test costs least, and is all that torch.compile sees.
            if (
                is_dynamo_compiling()
                or not self.awaits_module
                or threading.get_ident() != self.thread
                or is_compiling()
            ):
                return call(*args, **kwargs)
            before = self._phase
            self._module_begins()
            try:
                return call(*args, **kwargs)
            finally:
                self._module_ends(before)

        return called

    def _timed(self, phase: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a wrapper for functions whose time is `phase`."""
        from torch.compiler import is_compiling

        def wrapper(function: Callable[..., Any]) -> Callable[..., Any]:
            def timed(*args: Any, **kwargs: Any) -> Any:
                if is_compiling():
                    return function(*args, **kwargs)
                before = self._phase
                self._enter(phase)
                try:
                    return function(*args, **kwargs)
                finally:
                    self._leave(before)

            return timed

        return wrapper

    def _seen_checkpoint(self, checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `Run.checkpoint`: all that the script does in it is saving."""

        @contextlib.contextmanager
        def saving(*args: Any, **kwargs: Any) -> Iterator[Any]:
            before = self._phase
            self._enter("checkpoint")
            try:
                with checkpoint(*args, **kwargs) as place:
                    yield place
            finally:
                self._leave(before)

        return saving

    def _seen_load(self, load: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `torch.load`: before the first step it loads what the script resumes from."""

        def loaded(*args: Any, **kwargs: Any) -> Any:
            began = time.monotonic_ns()
            try:
                return load(*args, **kwargs)
            finally:
                if self._timer is None:
                    self._load_ns += time.monotonic_ns() - began

        return loaded

    def _seen_exit(self, leave: Callable[..., None]) -> Callable[..., None]:
        """Wrap the end of a context that has switched gradients off."""

        def left(*args: Any) -> None:
            leave(*args)
            if self._phase == "no_grad" or self._pause is not None:
                self._gradients_may_be_on()

        return left

    def _seen_fetch(self, fetch: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Wrap a wait for a loader: for its workers to start, or for its next batch."""

        def fetched(loading: Any) -> Any:
            before = self._phase
            self._fetch_begins()
            batch = None
            try:
                batch = fetch(loading)
            finally:
                self._fetch_ends(before, loading, batch)
            return batch

        return fetched

    def turn_off(self) -> None:
        self.is_off = True
        self.awaits_module = False

    def _forked(self) -> None:
        """Turn off in a child of the process that trains. Before that, it is the child that will."""
        if self.thread is not None:
            self.turn_off()

    @_hook
    def _enter(self, phase: str) -> None:
        if self._timer is not None:
            self._resume()
            self._phase = phase
            self.awaits_module = phase in AWAITING_MODULES
            self._timer.enter(phase)

    def _leave(self, before: str) -> None:
        """Go back to the phase before."""
        self._enter("other" if before == "no_grad" and _has_gradients() else before)

    @_hook
    def _module_begins(self) -> None:
        if _has_gradients():
            self._enter("forward")
        elif self._pause is None and self._phase != "optimizer":
            self._enter("no_grad")
        self.awaits_module = False

    @_hook
    def _module_ends(self, before: str) -> None:
        if self._phase == "forward":
            self._leave(before)
        self.awaits_module = True

    @_hook
    def _gradients_may_be_on(self) -> None:
        if _has_gradients():
            self._enter("other")

    @_hook
    def _fetch_begins(self) -> None:
        if self._timer is None:
            return
        if _has_gradients():
            self._enter("data_wait")
        elif self._pause is None:
            self._pause = contextlib.ExitStack()
            self._pause.enter_context(self._timer.pause())

    @_hook
    def _fetch_ends(self, before: str, loading: Any, batch: Any) -> None:
        if self._timer is None or self._pause is not None:
            return
        self._leave(before)
        batches = getattr(loading, "_index_sampler", None)
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
            self._phase_before_optimizer = self._phase
            self._enter("optimizer")

    @_hook
    def optimizer_ends(self, optimizer: Any) -> None:
        if self._outer is None or self._outer() is not optimizer:
            return
        self._outer = None
        leader = self._leader() if self._leader is not None else None
        self._num_of_others = 0 if leader is optimizer else self._num_of_others + 1
        if leader in (None, optimizer) or self._num_of_others >= MAX_STEPS_OF_ANOTHER:
            self._leader = weakref.ref(optimizer)
            self._num_of_others = 0
            self._end_step()
        # "backward": it steps in a hook of a gradient.
        self._enter("backward" if self._phase_before_optimizer == "backward" else "other")

    def _end_step(self) -> None:
        from muster.measure.progress import watch
        from muster.measure.timing import StepTimer
        from muster.sdk.reporter import current
        from muster.sdk.run import Run

        run = Run(current())  # The script has not asked for one.
        self._step += 1
        if self._timer is None:
            if watch.timer is not None or not run.reporter.measures_steps:
                self.turn_off()  # the script measures itself, or the document says no
                return
            self._step += run.resume_step
            if run.resume_step and self._load_ns:
                run.log({"time/restore_ms": self._load_ns / 1e6}, step=run.resume_step)
            self._timer = StepTimer(run=run)
            if run.info.rank == 0:
                run.message(
                    "Steps are measured from outside, because the script does not measure them: a step "
                    "ends with the optimizer's step, and forward is the time inside modules. What the "
                    "script does outside of them counts as outside the model, the loss as well unless "
                    "it is a module. measure.scripts: false switches it off."
                )
        elif watch.timer is not self._timer:
            self.turn_off()
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
        self._samples = None


_observer = Observer()


def _has_gradients() -> bool:
    return bool(sys.modules["torch"].is_grad_enabled())


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

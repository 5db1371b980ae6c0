"""The client for programs with an event loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from .client import Client
from .connection import RETRY_FOR_S
from .drive import Drive
from .target import Target, find_target
from .waiting import ITEMS_AT_ONCE

MAX_REQUESTS = 16
"""Requests under way at the same time; further ones wait. Waits between two looks do not count."""

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Something synchronous whose methods run on threads."""

    def __init__(self, inner: Any, threads: ThreadPoolExecutor) -> None:
        self.inner = inner
        self.threads = threads

    async def run(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.threads, function)


def awaited(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return the coroutine function that does what `method` does; its pauses are the loop's."""
    looks = getattr(method, "looks", None)

    @functools.wraps(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        inner = self._threads.inner
        if looks is None:
            found: T = await self._threads.run(lambda: method(inner, *args, **kwargs))
            return found
        steps = looks(inner, *args, **kwargs)
        while True:
            is_over, value = await self._threads.run(functools.partial(_look, steps))
            if is_over:
                return value  # type: ignore[no-any-return]
            await asyncio.sleep(value)

    return call


def streamed(
    method: Callable[Concatenate[Any, P], Iterator[T]],
) -> Callable[Concatenate[Any, P], AsyncIterator[T]]:
    """Return the asynchronous iterator over what `method` yields."""
    batches = getattr(method, "batches", None) or _single(method)

    @functools.wraps(method)
    async def stream(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        left = batches(self._threads.inner, *args, **kwargs)
        while True:
            is_over, batch = await self._threads.run(functools.partial(_look, left))
            if is_over:
                return
            if isinstance(batch, list):
                for item in batch:
                    yield item
            else:
                await asyncio.sleep(batch)

    return stream


def _single(method: Callable[..., Iterator[T]]) -> Callable[..., Iterator[list[T]]]:
    def batches(*args: Any, **kwargs: Any) -> Iterator[list[T]]:
        batch: list[T] = []
        for item in method(*args, **kwargs):
            batch.append(item)
            if len(batch) >= ITEMS_AT_ONCE:
                yield batch
                batch = []
        yield batch

    return batches


def _look(steps: Iterator[Any]) -> tuple[bool, Any]:
    """Return the next value of a generator, or that it is over, and what it returned."""
    try:
        return False, next(steps)
    except StopIteration as end:
        return True, end.value


class AsyncClient:
    """The methods of `Client`, to be awaited or iterated over with `async for`.

    async with AsyncClient() as muster:
        ended = await muster.wait(12)

    Requests run on up to `MAX_REQUESTS` threads; `wait` and followed logs hold none while nothing
    happens. A method that is canceled lets the request that is under way end.
    """

    def __init__(
        self,
        target: Target | str | None = None,
        token: str | None = None,
        *,
        retry_for_s: float = RETRY_FOR_S,
    ) -> None:
        self.client = Client(target, token, retry_for_s=retry_for_s)
        self._threads = Threads(
            self.client, ThreadPoolExecutor(MAX_REQUESTS, thread_name_prefix="muster-client")
        )

    @classmethod
    def from_environment(cls) -> Self:
        return cls(find_target())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._threads.run(self.client.close)
        self._threads.threads.shutdown(wait=False)

    def search(self, experiment_id: int) -> AsyncDrive:
        """Return the handle by which a program enqueues points, or asks and tells."""
        return AsyncDrive(self, experiment_id)

    call = awaited(Client.call)
    get = awaited(Client.get)
    post = awaited(Client.post)
    post_once = awaited(Client.post_once)
    put = awaited(Client.put)
    patch = awaited(Client.patch)
    delete = awaited(Client.delete)
    download = awaited(Client.download)
    download_to = awaited(Client.download_to)
    upload = awaited(Client.upload)
    pages = streamed(Client.pages)
    me = awaited(Client.me)
    cluster = awaited(Client.cluster)
    nodes = awaited(Client.nodes)
    queue = awaited(Client.queue)
    submit = awaited(Client.submit)
    preview = awaited(Client.preview)
    fork = awaited(Client.fork)
    continue_ = awaited(Client.continue_)
    experiment = awaited(Client.experiment)
    experiments = awaited(Client.experiments)
    update = awaited(Client.update)
    pause = awaited(Client.pause)
    resume = awaited(Client.resume)
    stop = awaited(Client.stop)
    kill = awaited(Client.kill)
    archive = awaited(Client.archive)
    unarchive = awaited(Client.unarchive)
    delete_experiment = awaited(Client.delete_experiment)
    wait = awaited(Client.wait)
    trials = awaited(Client.trials)
    figures = awaited(Client.figures)
    trial = awaited(Client.trial)
    best_trial = awaited(Client.best_trial)
    stop_trial = awaited(Client.stop_trial)
    kill_trial = awaited(Client.kill_trial)
    events = awaited(Client.events)
    evaluations = awaited(Client.evaluations)
    log_lines = streamed(Client.log_lines)
    metrics = awaited(Client.metrics)
    series = awaited(Client.series)
    curves = awaited(Client.curves)
    compare = awaited(Client.compare)
    outputs = awaited(Client.outputs)
    wait_for_outputs = awaited(Client.wait_for_outputs)
    download_outputs = awaited(Client.download_outputs)
    checkpoints = awaited(Client.checkpoints)
    pin_checkpoint = awaited(Client.pin_checkpoint)
    unpin_checkpoint = awaited(Client.unpin_checkpoint)
    export_checkpoint = awaited(Client.export_checkpoint)
    models = awaited(Client.models)
    model_versions = awaited(Client.model_versions)
    model_version = awaited(Client.model_version)
    register_model = awaited(Client.register_model)
    upload_model = awaited(Client.upload_model)
    wait_for_model = awaited(Client.wait_for_model)
    set_model_alias = awaited(Client.set_model_alias)
    delete_model_alias = awaited(Client.delete_model_alias)
    model_history = awaited(Client.model_history)
    promote_model = awaited(Client.promote_model)
    delete_model = awaited(Client.delete_model)
    pull_model = awaited(Client.pull_model)
    delete_deployment = awaited(Client.delete_deployment)
    deploy = awaited(Client.deploy)
    deployment = awaited(Client.deployment)
    deployments = awaited(Client.deployments)
    evaluate_model = awaited(Client.evaluate_model)
    export_model = awaited(Client.export_model)
    model_exports = awaited(Client.model_exports)
    model_leaderboards = awaited(Client.model_leaderboards)
    model_lineage = awaited(Client.model_lineage)
    model_uses = awaited(Client.model_uses)
    predict = awaited(Client.predict)
    roll_back_deployment = awaited(Client.roll_back_deployment)
    scale_deployment = awaited(Client.scale_deployment)
    stop_deployment = awaited(Client.stop_deployment)
    update_deployment = awaited(Client.update_deployment)
    wait_for_deployment = awaited(Client.wait_for_deployment)
    set_search_limits = awaited(Client.set_search_limits)


class AsyncDrive:
    """The methods of `Drive`, to be awaited. Of trials that `ask` returns, tell results with
    `tell`."""

    def __init__(self, client: AsyncClient, experiment_id: int) -> None:
        self.experiment_id = experiment_id
        drive = Drive(client.client, experiment_id)
        self._threads = Threads(drive, client._threads.threads)

    enqueue = awaited(Drive.enqueue)
    result = awaited(Drive.result)
    wait = awaited(Drive.wait)
    evaluate = awaited(Drive.evaluate)
    close = awaited(Drive.close)
    ask = awaited(Drive.ask)
    trials = streamed(Drive.trials)
    tell = awaited(Drive.tell)

"""A worker that answers requests with one version of a model: the process of a `serve:` job.

It speaks the Open Inference Protocol, and for language models OpenAI's completions. It is ready once the
model has computed something, and reports its address then. Asked to stop, it is no longer ready, goes on
answering until whoever sends requests has noticed, and ends when the last answer is given.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import socket
import sys
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import muster
from muster import wire
from muster.document.inference import ServeSection
from muster.document.model_config import BYTES
from muster.document.train_config import ConfigError
from muster.inference import completions, protocol
from muster.inference.batching import QueueFull, RequestBatcher
from muster.inference.launching import ModelJob, run_program
from muster.inference.protocol import RequestError, Signature
from muster.launch.variables import NODE_ADDRESS_VARIABLE

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from torch import Tensor

    from muster.sdk.run import Run

KEY_HEADER = "x-muster-key"
"""Header in which the router proves that a request came through it."""
NOTICED_S = 1.5
"""Seconds that a worker which stops goes on answering: until a router's health checks have seen it."""
REPORT_S = 10.0
IDLE_REPORT_S = 60.0
"""Seconds between two reports of rates and latencies: with requests in between, and without."""
LATENCIES_MAX = 10_000
"""Latencies kept between two reports; of more, the newest."""
KEEP_ALIVE_S = 75
"""Longer than the router keeps a connection that nothing comes on."""
STOP_LOOK_S = 0.2


@dataclass
class Stats:
    """What has been answered since the last report."""

    num_requests: int = 0
    num_errors: int = 0
    """Answers of 500 and above."""
    latencies_ms: deque[float] = field(default_factory=lambda: deque(maxlen=LATENCIES_MAX))

    def note(self, status: int, seconds: float) -> None:
        self.num_requests += 1
        self.num_errors += status >= 500
        self.latencies_ms.append(seconds * 1000)

    def taken(self, seconds: float) -> dict[str, float]:
        """Return the metrics of the last `seconds`, and begin anew."""
        ordered = sorted(self.latencies_ms)
        found = {
            "serve/requests_per_s": self.num_requests / seconds,
            "serve/errors_per_s": self.num_errors / seconds,
        }
        if ordered:
            for percent in (50, 95, 99):
                at = min(len(ordered) - 1, len(ordered) * percent // 100)
                found[f"serve/latency_p{percent}_ms"] = ordered[at]
        self.num_requests = self.num_errors = 0
        self.latencies_ms.clear()
        return found


class ServingEngine:
    """The model, and how requests reach it."""

    def __init__(
        self,
        compute: Callable[[Sequence[Tensor]], Sequence[Tensor]],
        *,
        name: str,
        version: str,
        signature: Signature,
        section: ServeSection,
        is_language_model: bool,
    ) -> None:
        self.name = name
        self.version = version
        self.signature = signature
        self.section = section
        self.is_language_model = is_language_model
        self.context = signature.shape[0] if signature.shape else 0
        self.batcher: RequestBatcher[Tensor, Tensor] = RequestBatcher(
            compute, max_rows=section.max_batch, max_queue=section.max_queue
        )
        self.stats = Stats()
        self.is_ready = False
        self.num_generating = 0

    def is_allowed(self, key: str) -> bool:
        """Return whether a request may be answered: it came through the router, or anybody may ask."""
        if self.section.key_sha256 is None:
            return True
        return hmac.compare_digest(
            hashlib.sha256(key.encode()).hexdigest(), self.section.key_sha256
        )

    async def infer(self, body: bytes) -> dict[str, Any]:
        """Answer an inference. Raises RequestError and QueueFull."""
        import torch

        request = protocol.read_infer(body, self.signature)
        dtype = torch.int64 if self.signature.takes_tokens else torch.float32
        rows = torch.tensor(request.data, dtype=dtype).view(request.shape)
        out = await self.batcher.submit(rows, request.shape[0])
        return protocol.infer_reply(
            model=self.name,
            version=self.version,
            request_id=request.id,
            shape=out.shape,
            data=out.flatten().tolist(),
        )

    async def next_logits(self, tokens: bytes) -> Sequence[float]:
        import torch

        out = await self.batcher.submit(torch.tensor([list(tokens)]), 1)
        found: list[float] = out[0, -1].tolist()
        return found


def make_app(engine: ServingEngine) -> Starlette:
    """Return the application that answers the requests."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, StreamingResponse
    from starlette.routing import Route

    def failed(status: int, message: str) -> Response:
        headers = {"retry-after": "1"} if status == 503 else None
        return JSONResponse({"error": message}, status, headers=headers)

    def answers(
        handle: Callable[[Request], Awaitable[Response]], *, counts: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            began = time.perf_counter()
            try:
                if not engine.is_allowed(request.headers.get(KEY_HEADER, "")):
                    raise RequestError(401, "requests have to come through the router")
                response = await handle(request)
            except RequestError as error:
                response = failed(error.status, error.message)
            except QueueFull:
                response = failed(503, f"{engine.section.max_queue} requests are waiting already")
            except Exception as error:  # of the model: the request is told, and the worker goes on
                print(f"muster: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
                response = failed(500, f"the model failed: {type(error).__name__}")
            if counts:
                engine.stats.note(response.status_code, time.perf_counter() - began)
            return response

        return endpoint

    async def live(request: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(request: Request) -> Response:
        return JSONResponse({"ready": engine.is_ready}, 200 if engine.is_ready else 503)

    async def server(request: Request) -> Response:
        return JSONResponse({"name": "muster", "version": muster.__version__, "extensions": []})

    def require_model(request: Request) -> None:
        names = request.path_params
        if names["model"] != engine.name or names.get("version", engine.version) != engine.version:
            raise RequestError(
                404,
                f"there is no such model here; this is version {engine.version} of {engine.name}",
            )

    async def metadata(request: Request) -> Response:
        require_model(request)
        return JSONResponse(
            protocol.metadata(model=engine.name, version=engine.version, signature=engine.signature)
        )

    async def model_ready(request: Request) -> Response:
        require_model(request)
        return await ready(request)

    async def infer(request: Request) -> Response:
        require_model(request)
        return JSONResponse(await engine.infer(await read_body(request)))

    async def read_body(request: Request) -> bytes:
        most = engine.section.max_body_bytes
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > most:
                raise RequestError(413, f"the body has more than {most} bytes")
        return bytes(body)

    async def models(request: Request) -> Response:
        entry = {"id": engine.name, "object": "model", "created": 0, "owned_by": "muster"}
        return JSONResponse({"object": "list", "data": [entry] if engine.is_language_model else []})

    async def complete(request: Request) -> Response:
        if not engine.is_language_model:
            raise RequestError(404, f"{engine.name} is no language model of the built-in trainer")
        wanted = completions.read_completion(
            await read_body(request), model=engine.name, max_tokens=engine.section.max_tokens
        )
        if engine.num_generating >= engine.section.max_queue:
            raise QueueFull
        finish = completions.CompletionEnd()
        request_id, created = f"cmpl-{uuid.uuid4().hex}", int(time.time())

        async def pieces() -> AsyncIterator[str]:
            engine.num_generating += 1
            try:
                async for text in completions.generate(
                    wanted, engine.next_logits, context=engine.context, finish=finish
                ):
                    yield text
            finally:
                engine.num_generating -= 1

        def answer(text: str, reason: str | None) -> dict[str, Any]:
            return completions.completion(
                request_id=request_id, created=created, model=engine.name, text=text, reason=reason
            )

        if not wanted.stream:
            text = "".join([piece async for piece in pieces()])
            num_prompt = len(wanted.prompt)
            usage = {
                "prompt_tokens": num_prompt,
                "completion_tokens": finish.num_tokens,
                "total_tokens": num_prompt + finish.num_tokens,
            }
            return JSONResponse({**answer(text, finish.reason), "usage": usage})

        async def events() -> AsyncIterator[bytes]:
            try:
                async for piece in pieces():
                    yield completions.frame(answer(piece, None))
                yield completions.frame(answer("", finish.reason))
            except QueueFull:
                yield completions.frame({"error": "too many requests are waiting"})
            yield completions.frame("[DONE]")

        return StreamingResponse(events(), media_type="text/event-stream")

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(engine.batcher.run())
        yield
        task.cancel()

    inference = answers(infer, counts=True)
    return Starlette(
        lifespan=life,
        routes=[
            Route("/v2/health/live", live),
            Route("/v2/health/ready", ready),
            Route("/v2", answers(server)),
            Route("/v2/models/{model}", answers(metadata)),
            Route("/v2/models/{model}/ready", answers(model_ready)),
            Route("/v2/models/{model}/infer", inference, methods=["POST"]),
            Route("/v2/models/{model}/versions/{version}", answers(metadata)),
            Route("/v2/models/{model}/versions/{version}/ready", answers(model_ready)),
            Route("/v2/models/{model}/versions/{version}/infer", inference, methods=["POST"]),
            Route("/v1/models", answers(models)),
            Route("/v1/completions", answers(complete, counts=True), methods=["POST"]),
        ],
    )


async def _answer(run: Run, engine: ServingEngine, listening: socket.socket, host: str) -> None:
    """Answer requests until asked to stop, and then until all of them are answered."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # SIGTERM is heard by `run_program`, and drains first

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            engine.is_ready = True
            run.reporter.record(wire.EndpointRecord(host=host, port=listening.getsockname()[1]))

    server = Server(
        uvicorn.Config(
            make_app(engine),
            log_level="warning",
            access_log=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=engine.section.drain_s,
            lifespan="on",
        )
    )
    async with asyncio.TaskGroup() as tasks:
        reporting = tasks.create_task(_report(run, engine))
        stopping = tasks.create_task(_stop(run, engine, server))
        await server.serve([listening])
        reporting.cancel()
        stopping.cancel()


async def _stop(run: Run, engine: ServingEngine, server: uvicorn.Server) -> None:
    """End the server when the worker is asked to stop, after whoever sends requests has noticed."""
    while True:
        await asyncio.sleep(STOP_LOOK_S)
        if run.reporter.stop_notice is not None:
            break
    run.reporter.acknowledge_stop()
    engine.is_ready = False
    await asyncio.sleep(NOTICED_S)
    server.should_exit = True


async def _report(run: Run, engine: ServingEngine) -> None:
    """Report rates and latencies as metrics of the trial."""
    step, since = 0, time.monotonic()
    while True:
        await asyncio.sleep(REPORT_S)
        seconds = time.monotonic() - since
        if engine.stats.num_requests or seconds >= IDLE_REPORT_S:
            step, since = step + 1, time.monotonic()
            run.log(engine.stats.taken(seconds), step=step)


def load_engine(job: ModelJob) -> ServingEngine:
    """Load the model and let it compute once. Raises CannotLoad and ConfigError."""
    import torch

    from muster.inference.loading import load

    section: ServeSection = job.section
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loaded = load(job.folder, device=device)
    module, takes_tokens = loaded.module, loaded.config.dtype == "int64"

    def compute(items: Sequence[Tensor]) -> Sequence[Tensor]:
        # Rows of fewer tokens are filled up behind: a causal model does not look there.
        longest = max(item.shape[1] for item in items) if takes_tokens else 0
        rows = [
            torch.nn.functional.pad(item, (0, longest - item.shape[1])) if longest else item
            for item in items
        ]
        with torch.inference_mode():
            out = module(torch.cat(rows).to(device)).float().cpu()
        parts: Sequence[Tensor] = out.split([len(item) for item in items])
        if not longest:
            return parts
        return [part[:, : item.shape[1]] for part, item in zip(parts, items, strict=True)]

    dtype = torch.int64 if takes_tokens else torch.float32
    for num_rows in (1, section.max_batch):  # the first times take much longer
        compute([torch.zeros((num_rows, *loaded.inputs), dtype=dtype)])
    return ServingEngine(
        compute,
        name=section.name or job.used.model,
        version=str(job.used.version),
        signature=Signature(
            shape=tuple(loaded.inputs), dtype=loaded.config.dtype, classes=loaded.classes
        ),
        section=section,
        is_language_model=loaded.config.trainer["model"] == "gpt" and loaded.classes == BYTES,
    )


def serve(job: ModelJob) -> None:
    """Serve until asked to stop. One process serves on all slots; the others wait."""
    run = job.run
    if run.info.rank != 0:
        while run.reporter.stop_notice is None:
            time.sleep(STOP_LOOK_S)
        run.reporter.acknowledge_stop()
        return
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"serve: the job's Python has no package {error.name}; serving needs starlette and uvicorn "
            "beside torch and safetensors"
        ) from error
    import torch

    torch.set_num_threads(run.info.local_world_size)
    engine = load_engine(job)
    host = "127.0.0.1"
    if job.section.listen == "node":
        host = os.environ[NODE_ADDRESS_VARIABLE]
    family, _, _, _, address = socket.getaddrinfo(host, None)[0]
    host = str(address[0])
    with socket.create_server((host, 0), family=family, backlog=2048) as listening:
        # Accepted connections inherit it. Without it, an answer of two packets waits for 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        asyncio.run(_answer(run, engine, listening, host))


if __name__ == "__main__":
    sys.exit(run_program("serve", serve))

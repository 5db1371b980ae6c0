"""A way to the server that can be cut: a TCP proxy in front of it, one for each agent.

with Links(server_port, num_links=2) as links:
    links.ports                     # the agents' ways
    links.set(0, "silent")          # until links.set(0, "open")
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Literal, get_args

Mode = Literal["open", "silent", "deaf", "reset", "slow"]
"""silent: nothing passes, and nobody is told; what was sent arrives late, once it is open again.
deaf: what the agent says is heard, but no answer comes back; the connections then end.
reset: connections end at once, and no new one is made.
slow: each piece takes SLOW_S."""
CUTS: tuple[Mode, ...] = tuple(mode for mode in get_args(Mode) if mode != "open")
SLOW_S = (0.1, 0.8)
PIECE_BYTES = 65_536


class Links:
    """The proxies, in a thread of their own."""

    def __init__(self, server_port: int, *, num_links: int, seed: int = 0) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        draw = random.Random(seed)
        self._links = [_Link(server_port, draw) for _ in range(num_links)]

    def __enter__(self) -> Links:
        self._thread.start()
        for link in self._links:
            self._do(link.listen())
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._links:
            self._do(link.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def ports(self) -> list[int]:
        return [link.port for link in self._links]

    def set(self, number: int, mode: Mode) -> None:
        """From now on the link is like this. Returns when it is."""
        self._do(self._links[number].set(mode))

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(10)


class _Link:
    def __init__(self, server_port: int, draw: random.Random) -> None:
        self.port = 0
        self._server_port = server_port
        self._draw = draw
        self._mode: Mode = "open"
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self.set("reset")
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def set(self, mode: Mode) -> None:
        was, self._mode = self._mode, mode
        if mode == "reset" or was == "deaf":
            for writer in self._open:
                writer.transport.abort()
        self._changed.set()
        self._changed = asyncio.Event()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        writers = [writer]
        try:
            # Ending it is then seen as a reset, not as an orderly end.
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            if self._mode == "reset":
                return
            down, up = await asyncio.open_connection("127.0.0.1", self._server_port)
            writers.append(up)
            self._open.update(writers)
            await asyncio.gather(
                self._pump(reader, up, is_answer=False), self._pump(down, writer, is_answer=True)
            )
        except OSError:
            pass  # the server is away, or one of them has ended it
        finally:
            for each in writers:
                self._open.discard(each)
                each.transport.abort()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        while data := await source.read(PIECE_BYTES):
            if self._mode == "slow":
                await asyncio.sleep(self._draw.uniform(*SLOW_S))
            while self._mode == "silent" or (self._mode == "deaf" and is_answer):
                await self._changed.wait()
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()

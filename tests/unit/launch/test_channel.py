"""Messages between the programs of a batch job."""

import asyncio
import socket

import pytest

from muster.launch.slurm.channel import Channel

LAST_WORDS = [{"event": "out", "data": "saved"}, {"event": "exit"}]


@pytest.mark.parametrize("is_tcp", [False, True])
def test_last_words_arrive_though_the_sender_has_not_read_everything(tmp_path, is_tcp):
    async def end_with_unread_input(reader, writer):
        channel = Channel(reader, writer)
        assert await channel.read() == {"event": "ready"}
        for message in LAST_WORDS:
            channel.send(message)
        await channel.finish()

    async def talk():
        if is_tcp:
            server = await asyncio.start_server(end_with_unread_input, "127.0.0.1", 0)
            streams = await asyncio.open_connection(*server.sockets[0].getsockname())
        else:
            path = str(tmp_path / "steps")
            server = await asyncio.start_unix_server(end_with_unread_input, path)
            streams = await asyncio.open_unix_connection(path)
        channel = Channel(*streams)
        channel.send({"event": "ready"})
        channel.send({"event": "signal", "number": 15})
        said = [await channel.read()]
        # Writes that fail once the other end has gone must not cost what it has said before.
        for _ in range(20):
            channel.send({"event": "signal", "number": 15})
            await asyncio.sleep(0)
        while (message := await channel.read()) is not None:
            said.append(message)
        channel.close()
        server.close()
        return said

    assert asyncio.run(asyncio.wait_for(talk(), 30)) == LAST_WORDS


def test_a_connection_is_closed_though_its_end_is_cut_short():
    async def talk():
        ours, theirs = socket.socketpair()
        with theirs:
            channel = Channel(*await asyncio.open_connection(sock=ours))
            finishing = asyncio.ensure_future(channel.finish())
            await asyncio.sleep(0)  # it waits for the other end now
            finishing.cancel()
            await asyncio.wait([finishing])
            return channel.writer.is_closing()

    assert asyncio.run(asyncio.wait_for(talk(), 30))

"""The node's part in a preflight: connections to other nodes, then an all-reduce.

Run as `python -m muster.launch.preflight --address ADDRESS --rank R --token T` by the agent, in the
interpreter that trains. It speaks JSON lines: an order on standard input, one answer to each on
standard output, the first one unasked.

    → (at start)                                {"host", "port", "problems"}
    {"order": "connect", "peers", "slots"} →    {"links", "store_port", "torch_version", "problems"}
    {"order": "reduce", "store", "num_nodes"} → {"links", "reduce_ms", "problems"}

It listens on the very address the node advertises, port 0, and answers whoever knows the token. It
lives until its standard input is closed, which also happens when the agent dies.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import datetime as dt
import hmac
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

CONNECT_TIMEOUT_S = 5.0
PAYLOAD_BYTES = 256 * 1024
"""Bytes sent there and back: where only small packets pass (a wrong MTU), this gets stuck."""
NUM_PINGS = 3
PAIR_TIMEOUT_S = 15.0
"""Seconds for the all-reduce of two nodes, and for waiting until the other one is ready."""
ALL_TIMEOUT_S = 30.0
NUM_VALUES = 262_144
"""Number of values in the all-reduce: one mebibyte of float32."""
_TOKEN_BYTES = 32


# ---------------------------------------------------------------- the listening half


class ConnectionListener:
    """Answers connections of the other nodes from threads of its own."""

    def __init__(self, address: str, token: str) -> None:
        """Start to listen. Raises OSError if that is impossible. `problem` is set if it was not
        possible on `address`: the others will try that address all the same."""
        self.problem = ""
        self._token = token.encode()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.bind((address, 0))
        except OSError as error:
            self.problem = (
                f"it advertises {address}, which it cannot listen on: {_words(error)} "
                "(MUSTER_AGENT_ADDRESS)"
            )
            self._socket.close()
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._socket.bind(("", 0))
        self._socket.listen(256)
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, ValueError):
            connection.settimeout(2 * CONNECT_TIMEOUT_S)
            if not hmac.compare_digest(_read(connection, len(self._token)), self._token):
                return
            connection.sendall(self._token[::-1])
            while size := int.from_bytes(_read(connection, 4), "big"):
                connection.sendall(_read(connection, min(size, PAYLOAD_BYTES)))


def _read(connection: socket.socket, num_bytes: int) -> bytes:
    """Read exactly so many bytes. Raises ConnectionResetError if the other end closes before."""
    data = bytearray()
    while len(data) < num_bytes:
        part = connection.recv(num_bytes - len(data))
        if not part:
            raise ConnectionResetError("the connection was closed")
        data += part
    return bytes(data)


# ---------------------------------------------------------------- the connecting half


def try_peer(host: str, port: int, token: str) -> tuple[str, float | None]:
    """Connect, ping, and send a larger piece there and back. Return ("", round trip in ms), or the
    problem and None."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    step = f"no connection to {where}"
    try:
        with socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S) as connection:
            step = f"{where} answered, but not as this preflight"
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(token.encode())
            if _read(connection, len(token)) != token[::-1].encode():
                return f"{step}: something else listens there", None
            step = f"{where} was reached, but small messages did not come back"
            best_s = min(_ping(connection, 1) for _ in range(NUM_PINGS))
            step = f"{where} was reached, but {PAYLOAD_BYTES // 1024} KiB did not come back"
            _ping(connection, PAYLOAD_BYTES)
            connection.sendall((0).to_bytes(4, "big"))
    except TimeoutError:
        return f"{step} within {CONNECT_TIMEOUT_S:g} s", None
    except OSError as error:
        return f"{step}: {_words(error)}", None
    return "", best_s * 1000


def _ping(connection: socket.socket, num_bytes: int) -> float:
    """Return the seconds until so many bytes are back."""
    began = time.perf_counter()
    data = bytes(num_bytes)
    sender = threading.Thread(
        target=_send_quietly, args=(connection, num_bytes.to_bytes(4, "big") + data), daemon=True
    )
    sender.start()
    _read(connection, num_bytes)
    sender.join()
    return time.perf_counter() - began


def _send_quietly(connection: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(data)


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300]


# ---------------------------------------------------------------- with torch


class Reducer:
    """The store on rank 0, and the all-reduces. Imports torch when first needed."""

    def __init__(self, address: str, rank: int) -> None:
        self._address = address
        self._rank = rank
        self._store: Any = None

    def open_store(self) -> int:
        """Host the store in which the processes find each other, on rank 0; return its port."""
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.bind((self._address, 0))
        listener.listen(256)
        port = int(listener.getsockname()[1])
        self._store = TCPStore(
            self._address,
            port,
            is_master=True,
            wait_for_workers=False,
            timeout=dt.timedelta(seconds=ALL_TIMEOUT_S),
            master_listen_fd=listener.detach(),
        )
        return port

    def join_store(self, host: str, port: int) -> None:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        if self._store is None:
            self._store = TCPStore(
                host, port, is_master=False, timeout=dt.timedelta(seconds=ALL_TIMEOUT_S)
            )

    def reduce(self, name: str, ranks: Sequence[int], timeout_s: float) -> float:
        """Sum over the processes of these ranks; return the ms that one took. Raises RuntimeError."""
        import torch
        from torch.distributed import PrefixStore, ProcessGroupGloo  # type: ignore[attr-defined]

        group: Any = ProcessGroupGloo(
            PrefixStore(name, self._store),
            list(ranks).index(self._rank),
            len(ranks),
            timeout=dt.timedelta(seconds=timeout_s),
        )
        values = torch.full((NUM_VALUES,), float(self._rank + 1))
        group.allreduce([values]).wait()  # the connections are made here
        values = torch.full((NUM_VALUES,), float(self._rank + 1))
        began = time.perf_counter()
        group.allreduce([values]).wait()
        took_ms = (time.perf_counter() - began) * 1000
        expected = float(sum(rank + 1 for rank in ranks))
        if not bool((values == expected).all()):
            raise RuntimeError(f"the sum was {values[0].item():g} instead of {expected:g}")
        return took_ms

    def reduce_on(self, backend: str, device: str, num_nodes: int, timeout_s: float) -> float:
        """Sum over all nodes by the library that training uses there; return the ms. Raises
        RuntimeError.

        backend: "nccl" with a `device` like "cuda:0". A node that NCCL cannot reach keeps it waiting
        on the device, where nothing can be given up: its watchdog then ends this process.
        """
        import torch
        import torch.distributed as dist
        from torch.distributed import PrefixStore  # type: ignore[attr-defined]

        if device.startswith("cuda"):
            torch.cuda.set_device(device)
        dist.init_process_group(
            backend,
            store=PrefixStore(backend, self._store),
            rank=self._rank,
            world_size=num_nodes,
            timeout=dt.timedelta(seconds=timeout_s),
        )
        try:
            _sum_of_all(device, self._rank, num_nodes)  # the connections are made here
            return _sum_of_all(device, self._rank, num_nodes)
        finally:
            dist.destroy_process_group()


def _sum_of_all(device: str, rank: int, num_nodes: int) -> float:
    import torch
    import torch.distributed as dist

    values = torch.full((NUM_VALUES,), float(rank + 1), device=device)
    began = time.perf_counter()
    dist.all_reduce(values)
    low, high = values.min().item(), values.max().item()  # waits for the device
    took_ms = (time.perf_counter() - began) * 1000
    expected = num_nodes * (num_nodes + 1) / 2
    if not low == high == expected:
        raise RuntimeError(f"the sum was {low:g} to {high:g} instead of {expected:g}")
    return took_ms


def rounds(rank: int, num_nodes: int) -> Iterator[int]:
    """Return the other ranks in an order in which all pairs of a round are disjoint, so that each
    waits for few."""
    for turn in range(num_nodes if num_nodes % 2 else num_nodes - 1):
        other = _partner(rank, turn, num_nodes)
        if other is not None:
            yield other


def _partner(rank: int, turn: int, num_nodes: int) -> int | None:
    """Return the partner in a round of a round-robin tournament; None if there is none."""
    size = num_nodes + num_nodes % 2
    last = size - 1
    if rank == last:
        # The one whose partner of this round would be itself.
        other = next(r for r in range(last) if (2 * r - turn) % last == 0)
    else:
        other = (turn - rank) % last
        if other == rank:
            other = last
    return other if other < num_nodes else None


WHEELS = ((11, 8), (12, 6), (12, 8), (13, 0))
"""Versions of CUDA for which PyTorch publishes wheels."""
NO_DRIVER = (0, 0)


def driver_cuda() -> tuple[int, int]:
    """Return the highest version of CUDA that the driver of this machine supports, as this process
    finds it; NO_DRIVER if it finds none."""
    version = ctypes.c_int()
    try:
        code = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return NO_DRIVER
    return NO_DRIVER if code else (version.value // 1000, version.value % 1000 // 10)


def driver_problem(torch_version: str, torch_cuda: str | None, driver: tuple[int, int]) -> str:
    """Return why torch cannot use the devices with this driver, and what to install, as a clause; "" if
    it can.

    torch_cuda: the version of CUDA that torch was built for, such as "13.0"; None for a build without.
        Any version of the driver's own major version works, also a later one.
    """
    if driver == NO_DRIVER:
        return "CUDA's driver (libcuda.so.1) is not found where its jobs run"
    major = int(torch_cuda.partition(".")[0]) if torch_cuda else 0
    if 0 < major <= driver[0]:
        return ""
    of_major = [wheel for wheel in WHEELS if wheel[0] == min(driver[0], WHEELS[-1][0])]
    fitting = [wheel for wheel in of_major if wheel <= driver] or of_major[:1]
    built = f"built for CUDA {torch_cuda}" if torch_cuda else "built without CUDA"
    told = f"torch {torch_version} is {built}, and the driver supports CUDA {driver[0]}.{driver[1]}"
    if not fitting:
        return f"{told}: install a newer driver"
    index = f"https://download.pytorch.org/whl/cu{fitting[-1][0]}{fitting[-1][1]}"
    newer = " or a newer driver" if torch_cuda else ""
    return f"{told}: install the wheel of `pip install torch --index-url {index}`{newer}"


def try_devices(slots: Sequence[int]) -> list[str]:
    """Return the problems of these CUDA devices: each multiplies two small matrices."""
    import torch

    problems = []
    for slot in slots:
        try:
            ones = torch.ones(256, 256, device=f"cuda:{slot}")
            if float((ones @ ones).sum().item()) != 256.0**3:
                problems.append(f"device {slot} computes wrong results")
        except Exception as error:
            problems.append(f"device {slot} cannot be used: {_words(error)}")
    return problems


# ---------------------------------------------------------------- orders


class PreflightRun:
    def __init__(self, address: str, rank: int, token: str) -> None:
        self._rank = rank
        self._token = token
        self._address = address
        self._reducer = Reducer(address, rank)
        self._slots: list[int] = []
        """CUDA devices that it may use; known from `connect` on."""

    def listen(self) -> dict[str, Any]:
        listener = ConnectionListener(self._address, self._token)
        problems = [listener.problem] if listener.problem else []
        return {"host": self._address, "port": listener.port, "problems": problems}

    def connect(self, order: dict[str, Any]) -> dict[str, Any]:
        """Try every peer at once, and check what torch can do here."""
        peers = order["peers"]
        answers: dict[int, tuple[str, float | None]] = {}

        def ask(peer: dict[str, Any]) -> None:
            answers[peer["rank"]] = try_peer(peer["host"], peer["port"], self._token)

        threads = [
            threading.Thread(target=ask, args=(p,)) for p in peers if p["rank"] != self._rank
        ]
        for thread in threads:
            thread.start()
        torch_version, store_port, problems = "", None, []
        try:
            import torch

            torch_version = str(torch.__version__)
            self._slots = list(order.get("slots") or [])
            if self._slots:
                why = driver_problem(torch_version, torch.version.cuda, driver_cuda())
                problems = [why] if why else try_devices(self._slots)
            if self._rank == 0 and len(peers) > 1:
                store_port = self._reducer.open_store()
        except ModuleNotFoundError:
            if order.get("slots"):
                problems = ["its devices were not tried: torch is not installed"]
        except (ImportError, OSError, RuntimeError):
            # Not there, or an address that others cannot reach either: the links say so.
            torch_version = ""
        for thread in threads:
            thread.join()
        return {
            "links": [_link(rank, *answers[rank]) for rank in sorted(answers)],
            "store_port": store_port,
            "torch_version": torch_version,
            "problems": problems,
        }

    def reduce(self, order: dict[str, Any]) -> dict[str, Any]:
        """Reduce for every pair separately, so that a failure names two nodes; then over all nodes;
        and then, where there are devices, over one device of each with NCCL."""
        num_nodes = order["num_nodes"]
        try:
            self._reducer.join_store(order["store"]["host"], order["store"]["port"])
        except (OSError, RuntimeError) as error:
            return {"links": [], "problems": [f"the store was not reached: {_words(error)}"]}
        links = []
        for other in rounds(self._rank, num_nodes):
            ranks = sorted((self._rank, other))
            try:
                took_ms = self._reducer.reduce(f"pair-{ranks[0]}-{ranks[1]}", ranks, PAIR_TIMEOUT_S)
            except Exception as error:
                links.append(_link(other, f"the all-reduce failed: {_words(error)}", None))
            else:
                links.append(_link(other, "", took_ms))
        answer: dict[str, Any] = {"links": links, "problems": []}
        if num_nodes > 2 and all(not link["message"] for link in links):
            try:
                answer["reduce_ms"] = self._reducer.reduce("all", range(num_nodes), ALL_TIMEOUT_S)
            except Exception as error:
                answer["problems"] = [f"the all-reduce of all nodes failed: {_words(error)}"]
        elif links:
            answer["reduce_ms"] = links[0]["ms"]
        if self._slots and not answer["problems"] and all(not link["message"] for link in links):
            device = f"cuda:{self._slots[0]}"
            try:
                answer["reduce_ms"] = self._reducer.reduce_on(
                    "nccl", device, num_nodes, ALL_TIMEOUT_S
                )
            except Exception as error:
                answer["problems"] = [
                    f"the all-reduce with NCCL on {device} failed: {_words(error)}"
                ]
        return answer


def _link(rank: int, message: str, took_ms: float | None) -> dict[str, Any]:
    return {"rank": rank, "message": message, "ms": took_ms}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m muster.launch.preflight", description=__doc__)
    parser.add_argument("--address", required=True, help="address of this node for the others")
    parser.add_argument("--rank", required=True, type=int, help="number of this node")
    parsed = parser.parse_args(arguments)
    token = sys.stdin.readline().strip()
    if len(token) != _TOKEN_BYTES:
        parser.error(f"the first line of standard input is a token of {_TOKEN_BYTES} characters")
    preflight = PreflightRun(parsed.address, parsed.rank, token)
    _say(preflight.listen())
    for line in sys.stdin:
        order = json.loads(line)
        # In a thread: when the input is closed meanwhile, nothing may keep us.
        threading.Thread(target=_carry_out, args=(preflight, order), daemon=True).start()
    sys.stdout.flush()
    os._exit(0)


def _carry_out(preflight: PreflightRun, order: dict[str, Any]) -> None:
    try:
        answer = (
            preflight.connect(order) if order["order"] == "connect" else preflight.reduce(order)
        )
    except Exception as error:
        answer = {"problems": [f"the preflight itself failed: {type(error).__name__}: {error}"]}
    _say(answer)


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

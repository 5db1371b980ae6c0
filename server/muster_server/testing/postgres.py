"""A private PostgreSQL server made from the machine's own binaries."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_TIMEOUT_S = 60


def find_binaries() -> Path | None:
    """The folder with initdb and pg_ctl of the newest installed PostgreSQL; None without one."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3])
    )
    return found[-1].parent if found else None


@contextmanager
def private_postgres(binaries: Path) -> Iterator[str]:
    """Run a fresh server until the end of the block; yields the URL of its `postgres` database.

    Listens on a unix socket in a private folder only. PostgreSQL refuses to run as root, so
    there it runs as the system's `postgres` user.
    """
    # A short path: the name of a unix socket must stay below about 100 bytes.
    folder = Path(tempfile.mkdtemp(prefix="muster-pg-"))
    data = folder / "data"
    as_user: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    environment = {"PATH": f"{binaries}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(folder)}

    def run(*command: str) -> None:
        done = subprocess.run(
            [*as_user, *command],
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=START_TIMEOUT_S + 10,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} failed: {done.stdout.decode(errors='replace')}")

    try:
        run(
            str(binaries / "initdb"), "-D", str(data), "-U", "muster",
            "--auth=trust", "-E", "UTF8", "--no-sync",
        )  # fmt: skip
        options = (
            f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off "
            "-c full_page_writes=off -c synchronous_commit=off -c shared_buffers=64MB "
            "-c max_connections=60"
        )
        # Output goes to a file: a server holding our pipe open would keep us waiting for its end.
        run(
            str(binaries / "pg_ctl"), "-D", str(data), "-l", str(folder / "log"),
            "-o", options, "-w", "-t", str(START_TIMEOUT_S), "start",
        )  # fmt: skip
        try:
            yield f"postgresql+psycopg://muster@/postgres?host={folder}"
        finally:
            run(str(binaries / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)

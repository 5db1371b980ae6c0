"""Runs a command and puts its rank before each line: `wrap_rank RANK -- COMMAND`."""

import subprocess
import sys
import threading
from typing import IO


def _pass_on(source: IO[bytes], target: IO[bytes], prefix: bytes) -> None:
    for line in source:
        target.write(prefix + line)
        target.flush()


def main(words: list[str]) -> int:
    rank, *command = [word for word in words if word not in ("--", "--no-redirect-stdio")]
    if "--" in words:
        command = words[words.index("--") + 1 :]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    prefix = f"[rank={rank}] ".encode()
    assert process.stdout is not None
    assert process.stderr is not None
    threads = [
        threading.Thread(target=_pass_on, args=(process.stdout, sys.stdout.buffer, prefix)),
        threading.Thread(target=_pass_on, args=(process.stderr, sys.stderr.buffer, prefix)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

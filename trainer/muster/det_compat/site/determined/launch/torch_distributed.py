"""Runs the command that is its argument: Muster's torchrun has started a worker on each slot."""

import os
import sys


def main(words: list[str]) -> None:
    if "--" in words:
        words = words[words.index("--") + 1 :]
    else:
        while words and words[0].startswith("-"):
            words = words[1:]
    if not words:
        sys.exit("usage: python -m determined.launch.torch_distributed [OPTIONS] -- COMMAND")
    os.execvp(words[0], words)  # noqa: S606  # the job's own command


if __name__ == "__main__":
    main(sys.argv[1:])

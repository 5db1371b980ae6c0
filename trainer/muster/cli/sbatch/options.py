"""`#SBATCH` lines of a batch script: which options there are, and how they are read."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from muster.launch.slurm.options import full_name

from ..output import CommandFailure, usage_error

FLAGS = frozenset({
    "requeue", "no-requeue", "exclusive", "hold", "overcommit", "oversubscribe", "contiguous", "verbose",
    "quiet", "wait", "parsable", "test-only", "spread-job", "use-min-nodes", "reboot", "no-kill",
    "ignore-pbs", "get-user-env", "kill-on-invalid-dep",
})  # fmt: skip
"""Options whose value, if there is one, follows a "="."""
SHORT = {
    "A": "account", "a": "array", "b": "begin", "C": "constraint", "c": "cpus-per-task", "D": "chdir",
    "d": "dependency", "e": "error", "F": "nodefile", "G": "gpus", "H": "hold", "i": "input",
    "J": "job-name", "k": "no-kill", "L": "licenses", "M": "clusters", "m": "distribution", "N": "nodes",
    "n": "ntasks", "O": "overcommit", "o": "output", "p": "partition", "Q": "quiet", "q": "qos",
    "S": "core-spec", "s": "oversubscribe", "t": "time", "v": "verbose", "W": "wait", "w": "nodelist",
    "x": "exclude",
}  # fmt: skip
_LOGS = "logs are kept by Muster: muster logs"
IGNORED = {
    "output": _LOGS, "error": _LOGS, "open-mode": _LOGS,
    "input": "a job has no input", "mail-type": "Muster sends no mail", "mail-user": "Muster sends no mail",
    "qos": "use priority", "account": "use project", "nice": "use priority", "priority": "use priority",
    "constraint": "use resources.labels", "nodelist": "use resources.allow_nodes",
    "exclude": "use resources.deny_nodes", "nodefile": "use resources.allow_nodes",
    "mem-per-cpu": "use resources.memory, which is per node",
    "mem-per-gpu": "use resources.memory, which is per node", "exclusive": "slots are never shared",
}  # fmt: skip
_OTHERS = frozenset({
    "acctg-freq", "bb", "bbf", "begin", "cluster-constraint", "clusters", "comment", "container",
    "container-id", "core-spec", "cores-per-socket", "cpu-freq", "cpus-per-gpu", "deadline", "delay-boot",
    "distribution", "export-file", "extra", "extra-node-info", "gid", "gpu-bind", "gpu-freq", "gres-flags",
    "hint", "licenses", "mcs-label", "mem-bind", "mincpus", "network", "ntasks-per-core",
    "ntasks-per-gpu", "ntasks-per-socket", "power", "prefer", "profile", "propagate", "reservation",
    "segment", "signal", "sockets-per-node", "switches", "thread-spec", "threads-per-core", "time-min",
    "tmp", "tres-bind", "tres-per-task", "uid", "wckey", "wrap",
})  # fmt: skip
"""Options that Slurm knows and that mean nothing here."""
HANDLED = frozenset({
    "nodes", "ntasks", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres", "time",
    "job-name", "comment", "array", "dependency", "partition", "cpus-per-task", "requeue", "no-requeue",
    "signal", "chdir", "export", "mem",
})  # fmt: skip
_KNOWN = HANDLED | IGNORED.keys() | _OTHERS | FLAGS


@dataclass(frozen=True, kw_only=True)
class SbatchOption:
    """An option of a `#SBATCH` line."""

    line: int
    """Number of the line; 0 on the command line of sbatch."""
    name: str
    """Long name, without dashes."""
    value: str
    written: str
    """Text of the option in the script."""

    @property
    def place(self) -> str:
        """Return where it stands."""
        return _place(self.line)

    def error(self, problem: str, hint: str) -> CommandFailure:
        """Return the error about this option; problem: a clause about it."""
        return usage_error(f"{self.place.capitalize()}: {self.written} {problem}.", hint)

    def number(self) -> int:
        """Return the value as a positive number. Raises CommandFailure."""
        if not self.value.isdigit() or int(self.value) < 1:
            raise self.error("is not a positive number", f"--{self.name}=2")
        return int(self.value)


def _place(line: int) -> str:
    return f"line {line}" if line else "command line"


def given_options(words: list[str]) -> Iterator[SbatchOption]:
    """Take the options of a command line of sbatch off its beginning, and yield them."""
    while words and words[0].startswith("-"):
        yield _option(0, words)


def sbatch_options(text: str) -> Iterator[SbatchOption]:
    """Yield the options of the `#SBATCH` lines, which end at the first command. Raises
    CommandFailure for an option that Slurm does not know or that lacks its value."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            return
        if not re.match(r"#SBATCH\s", line):
            continue
        try:
            words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
        except ValueError as error:
            raise usage_error(
                f"Line {number} cannot be split: {str(error).lower()}.", line
            ) from None
        while words:
            yield _option(number, words)


def _option(number: int, words: list[str]) -> SbatchOption:
    """Take the next option off the words of a line."""
    word = words.pop(0)
    if re.match(r"--[a-z]", word):
        name, has_value, value = word[2:].partition("=")
        name, written = full_name(name, _KNOWN), f"--{name}"
    elif re.match(r"-[A-Za-z]", word) and word[1] in SHORT:
        name, value = SHORT[word[1]], word[2:].removeprefix("=")
        has_value, written = "=" if value else "", word[:2]
    else:
        raise usage_error(
            f"{_place(number).capitalize()}: {word!r} is not an option of sbatch.",
            "options look like --nodes=2 or -N 2",
        )
    if name not in _KNOWN:
        near = difflib.get_close_matches(name, _KNOWN, n=1)
        raise usage_error(
            f"{_place(number).capitalize()}: --{name} is not an option of sbatch.",
            f"did you mean --{near[0]}?" if near else "see man sbatch",
        )
    if not has_value and name not in FLAGS:
        if not words:
            raise usage_error(
                f"{_place(number).capitalize()}: {written} needs a value.", f"--{name}=…"
            )
        value = words.pop(0)
    separator = "=" if written.startswith("--") else " "
    shown = f"{written}{separator}{value}" if value else written
    return SbatchOption(line=number, name=name, value=value, written=shown)

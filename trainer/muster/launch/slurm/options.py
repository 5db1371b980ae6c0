"""Command lines of `srun`: what each option means for a step. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_SHORT = {
    "A": "account", "B": "extra-node-info", "C": "constraint", "c": "cpus-per-task", "D": "chdir",
    "d": "dependency", "E": "preserve-env", "e": "error", "G": "gpus", "H": "hold", "I": "immediate",
    "i": "input", "J": "job-name", "K": "kill-on-bad-exit", "k": "no-kill", "L": "licenses",
    "l": "label", "M": "clusters", "m": "distribution", "N": "nodes", "n": "ntasks", "O": "overcommit",
    "o": "output", "p": "partition", "Q": "quiet", "q": "qos", "r": "relative", "S": "core-spec",
    "s": "oversubscribe", "T": "threads", "t": "time", "u": "unbuffered", "v": "verbose", "W": "wait",
    "w": "nodelist", "X": "disable-status", "x": "exclude", "Z": "no-allocate",
}  # fmt: skip
_FLAGS = frozenset({
    "label", "unbuffered", "overcommit", "oversubscribe", "overlap", "exact", "whole", "quiet", "verbose",
    "no-kill", "preserve-env", "disable-status", "hold", "contiguous", "spread-job", "use-min-nodes",
    "reboot", "mpi-combine", "pty", "multi-prog", "no-allocate", "send-libs", "interactive",
})  # fmt: skip
"""Options that take no value."""
_MAYBE = frozenset({"kill-on-bad-exit", "exclusive", "immediate", "nice", "propagate", "bcast"})
"""Options whose value, if there is one, follows a "=" or the letter."""
_HANDLED = frozenset({
    "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "nodelist", "exclude", "relative", "gpus",
    "gpus-per-node", "gpus-per-task", "gres", "gpu-bind", "kill-on-bad-exit", "wait", "label", "overlap",
    "oversubscribe", "overcommit", "export", "chdir", "job-name", "output", "error", "input", "jobid",
    "distribution", "mpi",
})  # fmt: skip
_WITHOUT_EFFECT = frozenset({
    "account", "partition", "qos", "constraint", "reservation", "comment", "licenses", "clusters",
    "unbuffered", "quiet", "verbose", "no-kill", "preserve-env", "disable-status", "immediate", "nice",
    "propagate", "exclusive", "exact", "whole", "cpu-bind", "cpu-freq", "mem", "mem-per-cpu",
    "mem-per-gpu", "mem-bind", "hint", "threads-per-core", "ntasks-per-core", "cores-per-socket",
    "sockets-per-node", "extra-node-info", "threads", "core-spec", "open-mode", "time", "time-min",
    "mail-type", "mail-user", "acctg-freq", "priority", "network", "profile", "contiguous", "spread-job",
    "use-min-nodes", "gpu-freq", "gres-flags", "switches", "tmp", "slurmd-debug", "cpus-per-gpu",
    "mincpus", "wckey", "interactive", "msg-timeout", "max-exit-timeout", "mpi-combine", "send-libs",
    "accel-bind", "deadline", "bell", "no-bell",
})  # fmt: skip
"""Options about Slurm's queue and its nodes' hardware, which a step in a job of Muster has no use for."""
_INSTEAD = {
    "pty": "a job has no terminal: `muster shell` opens one in it",
    "multi-prog": "start each program with a srun of its own, with & and a wait at the end",
    "container-image": "write the image into the job: muster submit --set environment.image=IMAGE",
}
_AN_OPTION = "leave it out, or write the script for `torchrun` with `launcher: shell`"


_NAMES = _FLAGS | _MAYBE | _HANDLED | _WITHOUT_EFFECT | _INSTEAD.keys()


def full_name(name: str, names: Collection[str]) -> str:
    """Return the option that a name stands for: Slurm takes any beginning that only one of them has."""
    if name in names:
        return name
    if name == "tasks-per-node":
        return "ntasks-per-node"
    found = [one for one in names if one.startswith(name)]
    return found[0] if len(found) == 1 else name


class StepRefused(Exception):
    """srun cannot do what it is asked for; `word` is the option at fault, for the line in the script."""

    def __init__(self, problem: str, hint: str, *, word: str = "srun") -> None:
        """Create the error; both texts are clauses."""
        super().__init__(f"{problem}; {hint}")
        self.word = word


@dataclass(frozen=True, kw_only=True)
class StepOptions:
    """What one call of srun asks for. None where it does not say."""

    argv: tuple[str, ...]
    nodes: int | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    nodelist: str = ""
    exclude: str = ""
    first_node: int = 0
    gpus: int | None = None
    """GPUs of the whole step."""
    gpus_per_node: int | None = None
    gpus_per_task: int | None = None
    kills_on_bad_exit: bool = False
    wait_s: int = 0
    """Seconds after the end of the first task at which the others are ended; 0: never."""
    labels: bool = False
    overlaps: bool = False
    overcommits: bool = False
    is_cyclic: bool = False
    """Whether neighbouring ranks are on different nodes."""
    export: tuple[str, ...] = ("ALL",)
    chdir: str = ""
    name: str = ""
    output: str = ""
    error: str = ""
    input: str = ""
    written: Mapping[str, str] = field(default_factory=dict)
    """Options as they stand on the line, by long name."""


def parse_srun(arguments: Sequence[str], environment: Mapping[str, str]) -> StepOptions:
    """Return what a command line of srun asks for, completed by the variables that srun reads.

    Raises StepRefused for what cannot be done here.
    """
    words = list(arguments)
    given: dict[str, str] = {}
    written: dict[str, str] = {}
    for name, value, word in take_options(words):
        _check(name, value, word, environment)
        given[name], written[name] = value, word
    if not words:
        raise StepRefused("there is no command to run", "srun -n 2 python train.py")
    read = _Reader(given, written, environment)
    gres = given.get("gres", "").rpartition(":")[2]
    is_gpu = given.get("gres", "").startswith(("gpu", "gres/gpu"))
    no_gpus = 0 if given.get("gres") == "none" else None
    bind = given.get("gpu-bind", "")
    bound = bind.rpartition(":")[2] if bind.startswith(("single:", "per_task:")) else ""
    per_task = read.number("gpus-per-task", "SLURM_GPUS_PER_TASK", is_last=True, least=0)
    return StepOptions(
        argv=tuple(words),
        nodes=_nodes(given.get("nodes", ""), written.get("nodes", "")),
        tasks=read.number("ntasks"),
        tasks_per_node=read.number("ntasks-per-node"),
        cpus_per_task=read.number("cpus-per-task"),
        nodelist=given.get("nodelist", ""),
        exclude=given.get("exclude", ""),
        first_node=read.number("relative", least=0) or 0,
        gpus=read.number("gpus", is_last=True, least=0),
        gpus_per_node=(int(gres) if gres.isdigit() else 1)
        if is_gpu
        else read.number("gpus-per-node", is_last=True, least=0, default=no_gpus),
        gpus_per_task=int(bound) if per_task is None and bound.isdigit() else per_task,
        kills_on_bad_exit=read.flag("kill-on-bad-exit", "SLURM_KILL_BAD_EXIT"),
        wait_s=read.number("wait", "SLURM_WAIT", least=0) or 0,
        labels=read.flag("label", "SLURM_LABELIO"),
        overlaps=bool(given.keys() & {"overlap", "oversubscribe"})
        or "SLURM_OVERLAP" in environment,
        overcommits=read.flag("overcommit", "SLURM_OVERCOMMIT"),
        is_cyclic=given.get("distribution", "").startswith("cyclic"),
        export=tuple(given.get("export", environment.get("SLURM_EXPORT_ENV", "ALL")).split(",")),
        chdir=given.get("chdir", ""),
        name=given.get("job-name", ""),
        output=given.get("output", ""),
        error=given.get("error", ""),
        input=given.get("input", ""),
        written=written,
    )


def take_options(words: list[str]) -> Iterator[tuple[str, str, str]]:
    """Take the options off the beginning of `words`; yield long name, value and how it is written.

    Raises StepRefused for one that srun does not know.
    """
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word == "--":
            return
        if word.startswith("--"):
            name, has_value, value = word[2:].partition("=")
            name = full_name(name, _NAMES)
            if has_value or name in _FLAGS | _MAYBE:
                yield name, value, word
                continue
        else:
            name, value = _SHORT.get(word[1], ""), word[2:].removeprefix("=")
            if not name:
                raise StepRefused(f"{word} is not an option that it knows", _AN_OPTION, word=word)
            if name in _FLAGS:
                yield name, "", word[:2]
                if value:  # -lu: two letters in one word
                    words.insert(0, f"-{value}")
                continue
            if value or name in _MAYBE:
                yield name, value, word
                continue
        if name not in _HANDLED | _WITHOUT_EFFECT:
            raise StepRefused(f"{word} is not an option that it knows", _instead(name), word=word)
        if not words:
            raise StepRefused(f"{word} needs a value", f"{word} VALUE", word=word)
        value = words.pop(0)
        yield name, value, f"{word} {value}"


def _instead(name: str) -> str:
    return _INSTEAD.get("container-image" if name.startswith("container") else name, _AN_OPTION)


def _check(name: str, value: str, word: str, environment: Mapping[str, str]) -> None:
    """Raise StepRefused for an option that cannot be followed."""
    if name not in _HANDLED | _WITHOUT_EFFECT:
        raise StepRefused(f"{word} cannot be used here", _instead(name), word=word)
    job = environment.get("SLURM_JOB_ID", "")
    if name == "jobid" and value != job:
        raise StepRefused(
            f"{word} names another job than this one, {job}", "leave it out", word=word
        )
    if name == "distribution" and not value.startswith(("block", "cyclic", "*")):
        raise StepRefused(f"{word} cannot be used here", "block and cyclic can", word=word)
    if name == "mpi" and value not in ("none", ""):
        hint = "leave it out; start a program that uses MPI with mpirun"
        raise StepRefused(f"{word} cannot be used here", hint, word=word)
    if name == "gpu-bind" and value.startswith(("map", "mask", "verbose")):
        raise StepRefused(f"{word} cannot be used here", "use --gpus-per-task=1", word=word)


def _nodes(text: str, written: str) -> int | None:
    least, _, most = text.partition("-")
    if not text:
        return None
    if not least.isdigit() or int(least) < 1 or (most and most != least):
        raise StepRefused(f"{written} is not one number of nodes", "--nodes=2", word=written)
    return int(least)


@dataclass(frozen=True)
class _Reader:
    given: Mapping[str, str]
    written: Mapping[str, str]
    environment: Mapping[str, str]

    def number(
        self,
        name: str,
        variable: str = "",
        *,
        least: int = 1,
        is_last: bool = False,
        default: int | None = None,
    ) -> int | None:
        """Return the number of an option or else of a variable; is_last: a kind may precede it, as in
        `a100:4`."""
        text = self.given.get(name) or self.environment.get(variable, "")
        if not text:
            return default
        text = text.rpartition(":")[2] if is_last else text
        if not text.isdigit() or int(text) < least:
            word = self.written.get(name, f"{variable}={text}")
            raise StepRefused(f"{word} is not a number from {least} on", f"--{name}=2", word=word)
        return int(text)

    def flag(self, name: str, variable: str) -> bool:
        text = self.given.get(name, self.environment.get(variable, "0"))
        return text != "0"

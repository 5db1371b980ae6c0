"""Slurm batch scripts as experiments: what `#SBATCH` lines become, and what has no meaning here."""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any

from muster.launch.commands import find_call

from .exit_codes import EXIT_USAGE
from .output import CommandFailure, say

if TYPE_CHECKING:
    from muster.client import Client

_FLAGS = frozenset({
    "requeue", "no-requeue", "exclusive", "hold", "overcommit", "oversubscribe", "contiguous", "verbose",
    "quiet", "wait", "parsable", "test-only", "spread-job", "use-min-nodes", "reboot", "no-kill",
    "ignore-pbs", "get-user-env", "kill-on-invalid-dep",
})  # fmt: skip
"""Options whose value, if there is one, follows a "="."""
_SHORT = {
    "A": "account", "a": "array", "b": "begin", "C": "constraint", "c": "cpus-per-task", "D": "chdir",
    "d": "dependency", "e": "error", "F": "nodefile", "G": "gpus", "H": "hold", "i": "input",
    "J": "job-name", "k": "no-kill", "L": "licenses", "M": "clusters", "m": "distribution", "N": "nodes",
    "n": "ntasks", "O": "overcommit", "o": "output", "p": "partition", "Q": "quiet", "q": "qos",
    "S": "core-spec", "s": "oversubscribe", "t": "time", "v": "verbose", "W": "wait", "w": "nodelist",
    "x": "exclude",
}  # fmt: skip
_LOGS = "logs are kept by Muster: muster logs"
_IGNORED = {
    "output": _LOGS, "error": _LOGS, "open-mode": _LOGS,
    "input": "a job has no input", "mail-type": "Muster sends no mail", "mail-user": "Muster sends no mail",
    "qos": "use priority", "account": "use project", "nice": "use priority", "priority": "use priority",
    "constraint": "use resources.labels", "nodelist": "use resources.allow_nodes",
    "exclude": "use resources.deny_nodes", "nodefile": "use resources.allow_nodes",
    "mem": "memory is not limited", "mem-per-cpu": "memory is not limited",
    "mem-per-gpu": "memory is not limited", "exclusive": "slots are never shared",
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
_HANDLED = frozenset({
    "nodes", "ntasks", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres", "time",
    "job-name", "comment", "array", "dependency", "partition", "cpus-per-task", "requeue", "no-requeue",
    "signal", "chdir", "export",
})  # fmt: skip
_KNOWN = _HANDLED | _IGNORED.keys() | _OTHERS | _FLAGS
_WHEN = {"afterok": "success", "afterany": "any"}
_SHELLS = frozenset({"bash", "sh", "zsh", "ksh", "dash"})
_SRUN = re.compile(r"(?:^|[|;&(]|\$\(|\bexec\s|\btime\s)\s*srun\b(?P<rest>[^\n]*)", re.MULTILINE)
_SECONDS = {1: (60,), 2: (60, 1), 3: (3600, 60, 1)}
_SECONDS_AFTER_DAYS = {1: (3600,), 2: (3600, 60), 3: (3600, 60, 1)}


@dataclass(frozen=True, kw_only=True)
class SbatchOption:
    """An option of a `#SBATCH` line."""

    line: int
    name: str
    """Long name, without dashes."""
    value: str
    written: str
    """Text of the option in the script."""

    def error(self, problem: str, hint: str) -> CommandFailure:
        """Return the error about this option; problem: a clause about it."""
        return CommandFailure(
            f"Line {self.line}: {self.written} {problem}.", hint, exit_code=EXIT_USAGE
        )

    def number(self) -> int:
        """Return the value as a positive number. Raises CommandFailure."""
        if not self.value.isdigit() or int(self.value) < 1:
            raise self.error("is not a positive number", f"--{self.name}=2")
        return int(self.value)


@dataclass(frozen=True, kw_only=True)
class Translation:
    """What became of an option."""

    option: SbatchOption
    became: str
    """Keys and values of the document; "" if it was ignored."""
    why: str = ""

    def text(self) -> str:
        """Return the line for people."""
        what = f"→ {self.became}" if self.became else "ignored"
        return f"line {self.option.line}: {self.option.written} {what}" + (
            f" ({self.why})" if self.why else ""
        )


@dataclass(frozen=True, kw_only=True)
class SbatchJob:
    """A batch script as an experiment."""

    document: dict[str, Any]
    translations: Sequence[Translation]
    notes: Sequence[str] = ()


@dataclass
class _BatchDraft:
    """The document while it is made."""

    options: Mapping[str, SbatchOption]
    document: dict[str, Any] = field(default_factory=dict)
    translations: list[Translation] = field(default_factory=list)

    def section(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.document.setdefault(name, {})
        return found

    def note(self, option: SbatchOption, became: str, why: str = "") -> None:
        self.translations.append(Translation(option=option, became=became, why=why))


def document_of(
    client: Client, file: str, text: str, *, arguments: Sequence[str] = (), quiet: bool = False
) -> str:
    """Return the document of a batch script, and say what became what unless `quiet`.

    file: the script, inside the current folder, which is sent with it. Raises CommandFailure.
    """
    path = Path(file).resolve()
    folder = Path.cwd()
    if file == "-" or not path.is_relative_to(folder):
        raise CommandFailure(
            "A batch script must be a file in the current folder, which is sent with it.",
            "cd into its folder first",
            exit_code=EXIT_USAGE,
        )
    name = path.relative_to(folder).as_posix()
    pools = [pool["name"] for pool in client.pages("/pools")] if "partition" in text else []
    job = read_sbatch(text, name, arguments=arguments, pools=pools)
    if not quiet:
        for translation in job.translations:
            say(translation.text())
        for note in job.notes:
            say(note)
    return json.dumps(job.document, indent=2)


def is_sbatch(text: str) -> bool:
    """Return whether a text is a shell script rather than a document."""
    return text.startswith("#!")


def read_sbatch(
    text: str, path: str, *, arguments: Sequence[str] = (), pools: Sequence[str] = ()
) -> SbatchJob:
    """Return the experiment that a batch script describes.

    path: the script relative to the folder that is sent. arguments: those of the script. pools:
    names of the pools, for --partition. Raises CommandFailure for values that make no sense, naming
    line and value, and for scripts that cannot run without Slurm.
    """
    options = {option.name: option for option in sbatch_options(text)}
    job = _BatchDraft(options)
    job.document["name"] = PurePath(path).stem or "job"
    nodes = _shape(job)
    for name, translate in _TRANSLATIONS.items():
        if name in options:
            translate(job, options[name])
    if partition := options.get("partition"):
        _partition(job, partition, pools)
    for name, option in options.items():
        if name not in _HANDLED:
            job.note(option, "", _IGNORED.get(name, "it means nothing here"))
    notes = _body(job, text, path, arguments, nodes)
    return SbatchJob(
        document=job.document,
        translations=sorted(job.translations, key=lambda t: t.option.line),
        notes=notes,
    )


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
            raise CommandFailure(
                f"Line {number} cannot be split: {str(error).lower()}.", line, exit_code=EXIT_USAGE
            ) from None
        while words:
            yield _option(number, words)


def _option(number: int, words: list[str]) -> SbatchOption:
    """Take the next option off the words of a line."""
    word = words.pop(0)
    if re.match(r"--[a-z]", word):
        name, has_value, value = word[2:].partition("=")
        written = f"--{name}"
    elif re.match(r"-[A-Za-z]", word) and word[1] in _SHORT:
        name, value = _SHORT[word[1]], word[2:].removeprefix("=")
        has_value, written = "=" if value else "", word[:2]
    else:
        raise CommandFailure(
            f"Line {number}: {word!r} is not an option of sbatch.",
            "options look like --nodes=2 or -N 2",
            exit_code=EXIT_USAGE,
        )
    if name not in _KNOWN:
        near = difflib.get_close_matches(name, _KNOWN, n=1)
        raise CommandFailure(
            f"Line {number}: --{name} is not an option of sbatch.",
            f"did you mean --{near[0]}?" if near else "see man sbatch",
            exit_code=EXIT_USAGE,
        )
    if not has_value and name not in _FLAGS:
        if not words:
            raise CommandFailure(
                f"Line {number}: {written} needs a value.", f"--{name}=…", exit_code=EXIT_USAGE
            )
        value = words.pop(0)
    separator = "=" if written.startswith("--") else " "
    shown = f"{written}{separator}{value}" if value else written
    return SbatchOption(line=number, name=name, value=value, written=shown)


# ---------------------------------------------------------------- nodes and slots


def _shape(job: _BatchDraft) -> int | None:
    """Set nodes and slots, and return the number of nodes; None if the script leaves it open."""
    options = job.options
    nodes = _nodes(options.get("nodes"))
    tasks, per_node = options.get("ntasks"), options.get("ntasks-per-node")
    num_tasks = tasks.number() if tasks else None
    tasks_per_node = per_node.number() if per_node else None
    if nodes is None and num_tasks and tasks_per_node:
        nodes = -(-num_tasks // tasks_per_node)
    if tasks and num_tasks and tasks_per_node is None and nodes is not None:
        if num_tasks % nodes:
            raise tasks.error(
                f"cannot be divided evenly over {nodes} nodes",
                f"--ntasks-per-node with --nodes={nodes}",
            )
        tasks_per_node = num_tasks // nodes
    gpu_option, gpus_per_node = _gpus_per_node(options, nodes, tasks_per_node or num_tasks or 1)
    task_option = per_node or tasks
    workers = tasks_per_node if nodes is not None or per_node else num_tasks
    if gpu_option and gpus_per_node and task_option and workers not in (None, 1, gpus_per_node):
        raise task_option.error(
            f"gives {workers} tasks, and line {gpu_option.line}, {gpu_option.written}, "
            f"{gpus_per_node} GPUs on a node",
            "Muster runs one worker on each slot: ask for as many tasks as GPUs, or for one task",
        )
    slots_per_node = gpus_per_node or workers or 1
    resources = job.section("resources")
    resources["slots"] = slots_per_node * (nodes or 1)
    if nodes is not None:
        resources["nodes"] = nodes
    if gpus_per_node:
        resources["slot_type"] = "cuda"
    for name, option in options.items():
        if name == "nodes":
            job.note(option, f"resources.nodes: {nodes}")
        elif name in ("gpus", "gpus-per-node", "gpus-per-task", "gres"):
            kind = ", slot_type: cuda" if gpus_per_node else ""
            job.note(option, f"resources.slots: {resources['slots']}{kind}")
        elif name in ("ntasks", "ntasks-per-node"):
            job.note(option, f"resources.slots: {resources['slots']}")
    return nodes


def _nodes(option: SbatchOption | None) -> int | None:
    if option is None:
        return None
    if "-" in option.value or "," in option.value or ":" in option.value:
        raise option.error(
            "names a range of nodes",
            "name one number; resources.min_slots of a document makes a job elastic",
        )
    return option.number()


def _gpus_per_node(
    options: Mapping[str, SbatchOption], nodes: int | None, tasks_per_node: int
) -> tuple[SbatchOption | None, int]:
    """Return the option that says how many GPUs a node needs, and their number. Raises
    CommandFailure when two options differ."""
    found: list[tuple[SbatchOption, int]] = []
    for name in ("gpus-per-node", "gres", "gpus", "gpus-per-task"):
        option = options.get(name)
        if option is None:
            continue
        count = _gpu_count(option)
        if name == "gpus" and nodes is not None:
            if count % nodes:
                raise option.error(
                    f"cannot be divided evenly over {nodes} nodes", "use --gpus-per-node"
                )
            count //= nodes
        elif name == "gpus-per-task":
            count *= tasks_per_node
        found.append((option, count))
    if not found:
        return None, 0
    first = found[0]
    for option, count in found[1:]:
        if count != first[1]:
            raise option.error(
                f"gives {count} GPUs on a node, and line {first[0].line}, {first[0].written}, "
                f"{first[1]}",
                "keep one of them",
            )
    return first


def _gpu_count(option: SbatchOption) -> int:
    """Return the number of `4`, `a100:4`, `gpu:4` or `gpu:a100:4`; 0 for other generic resources."""
    *kinds, last = option.value.split(":")
    if option.name == "gres":
        if (kinds or [last])[0] not in ("gpu", "gres/gpu"):
            return 0
        if not kinds or not last[:1].isdigit():
            return 1
    count = last.partition("(")[0]
    if not count.isdigit():
        raise option.error("names no number of GPUs", f"--{option.name}=4")
    return int(count)


# ---------------------------------------------------------------- the other options


def _name(job: _BatchDraft, option: SbatchOption) -> None:
    job.document["name"] = option.value
    job.note(option, f"name: {option.value}")


def _comment(job: _BatchDraft, option: SbatchOption) -> None:
    job.document["notes"] = option.value
    job.note(option, "notes")


def _time(job: _BatchDraft, option: SbatchOption) -> None:
    seconds = time_limit_s(option)
    if seconds == 0:
        job.note(option, "", "it sets no limit")
        return
    hours = round(seconds / 3600 * job.section("resources")["slots"], 4)
    job.section("budget")["slot_hours"] = hours
    job.note(option, f"budget.slot_hours: {hours:g}", "slots × time, without the time in the queue")


def time_limit_s(option: SbatchOption) -> int:
    """Return the seconds of a time as Slurm writes it, where a plain number is minutes; 0 for no
    limit. Raises CommandFailure."""
    if option.value.upper() in ("0", "UNLIMITED", "INFINITE", "-1"):
        return 0
    days, dash, rest = option.value.rpartition("-")
    parts = rest.split(":")
    units = (_SECONDS_AFTER_DAYS if dash else _SECONDS).get(len(parts))
    if units is None or not all(p.isdigit() for p in [*parts, *([days] if dash else [])]):
        raise option.error(
            "is no time", "minutes, or M:S, H:M:S, D-H, D-H:M or D-H:M:S, such as --time=1-12:00:00"
        )
    seconds = sum(int(part) * unit for part, unit in zip(parts, units, strict=True))
    return seconds + int(days or 0) * 86_400


def _cpus(job: _BatchDraft, option: SbatchOption) -> None:
    variables = job.section("environment").setdefault("variables", {})
    variables["OMP_NUM_THREADS"] = str(option.number())
    job.note(option, f"environment.variables.OMP_NUM_THREADS: {option.value}", "cores are shared")


def _requeue(job: _BatchDraft, option: SbatchOption) -> None:
    is_preemptible = option.name == "requeue"
    job.section("resources")["preemptible"] = is_preemptible
    job.note(option, f"resources.preemptible: {str(is_preemptible).lower()}")


def _signal(job: _BatchDraft, option: SbatchOption) -> None:
    found = re.fullmatch(r"(?:[BR]{1,2}:)?\w+(?:@(\d+))?", option.value)
    if found is None:
        raise option.error("is no signal", "--signal=USR1@120")
    seconds = int(found[1] or 60)
    job.document["stop_grace_s"] = seconds
    job.note(option, f"stop_grace_s: {seconds}", "Muster sends SIGTERM")


def _chdir(job: _BatchDraft, option: SbatchOption) -> None:
    if PurePosixPath(option.value) != PurePosixPath("."):
        raise option.error(
            "names another folder, and a job starts in a copy of the current one",
            "run the command in that folder, or write `cd` into the script",
        )
    job.note(option, "", "a job starts in a copy of the current folder")


def _export(job: _BatchDraft, option: SbatchOption) -> None:
    given = [part.partition("=") for part in option.value.split(",") if "=" in part]
    if not given:
        job.note(option, "", "variables of this shell are not passed on; --export=NAME=VALUE is")
        return
    variables = job.section("environment").setdefault("variables", {})
    variables |= {name: value for name, _, value in given}
    names = ", ".join(name for name, _, _ in given)
    job.note(option, f"environment.variables: {names}")


def _array(job: _BatchDraft, option: SbatchOption) -> None:
    raise option.error(
        "is not supported", "write a search: method grid tries every value of a hyperparameter"
    )


def _dependency(job: _BatchDraft, option: SbatchOption) -> None:
    entries: list[dict[str, Any]] = []
    for part in option.value.split(","):
        kind, *numbers = part.split(":")
        if kind not in _WHEN:
            raise option.error(
                f"has the kind {kind!r}, which has no meaning here", "use afterok:12 or afterany:12"
            )
        if not numbers or not all(n.isdigit() and int(n) > 0 for n in numbers):
            raise option.error(
                "names no experiments", "afterok:12:13, with the numbers of experiments"
            )
        entries += [{"experiment": int(number), "when": _WHEN[kind]} for number in numbers]
    job.document["after"] = entries
    shown = ", ".join(f"{entry['experiment']} ({entry['when']})" for entry in entries)
    job.note(option, f"after: {shown}", "numbers are those of experiments")


def _partition(job: _BatchDraft, option: SbatchOption, pools: Sequence[str]) -> None:
    chosen = next((name for name in option.value.split(",") if name in pools), None)
    if chosen is None:
        job.note(option, "", f"there is no pool of that name; pools: {', '.join(pools) or 'none'}")
        return
    job.section("resources")["pool"] = chosen
    job.note(option, f"resources.pool: {chosen}")


_TRANSLATIONS: Mapping[str, Callable[[_BatchDraft, SbatchOption], None]] = {
    "job-name": _name,
    "comment": _comment,
    "time": _time,
    "cpus-per-task": _cpus,
    "requeue": _requeue,
    "no-requeue": _requeue,
    "signal": _signal,
    "chdir": _chdir,
    "export": _export,
    "array": _array,
    "dependency": _dependency,
}


# ---------------------------------------------------------------- the commands


def _body(
    job: _BatchDraft, text: str, path: str, arguments: Sequence[str], nodes: int | None
) -> list[str]:
    """Set the entry point, and return sentences about it.

    The script itself runs, as it is. Variables of Slurm are set in its shell alone, because
    programs that find them in their environment believe that they run under Slurm.
    """
    calls = [found["rest"] for found in _SRUN.finditer(_commands(text))]
    resources = job.section("resources")
    if len(calls) > 1:
        raise _needs_slurm("calls srun more than once", path)
    if not calls and nodes is not None and nodes > 1:
        raise _needs_slurm(f"asks for {nodes} nodes and does not call srun", path)
    command, num_words = _srun_command(calls[0]) if calls else ([], 0)
    starts_workers = not calls or find_call(command) is not None
    if not calls:
        resources.setdefault("nodes", 1)
    job.document["launcher"] = "shell" if starts_workers else "direct"
    script = [*_shell(text, path), "-c", _prelude(num_words, is_task=not starts_workers), path]
    job.document["entrypoint"] = [*script, *arguments]
    if starts_workers and calls:
        return ["The script runs once on each node; srun starts its command there."]
    if calls:
        return ["The script runs once for each task: its commands before srun run as often."]
    return []


def _commands(text: str) -> str:
    """Return the lines of a script without comments; continued lines are one."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return "\n".join(line for line in joined.splitlines() if not line.lstrip().startswith("#"))


def _srun_command(rest: str) -> tuple[list[str], int]:
    """Return the command that srun starts, and the number of words of srun's own options."""
    lexer = shlex.shlex(rest, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, "#"
    try:
        words = list(lexer)
    except ValueError:
        words = rest.split()
    position = 0
    while position < len(words) and words[position].startswith("-"):
        word = words[position]
        position += 1
        is_short = not word.startswith("--")
        name = _SHORT.get(word[1:2], "") if is_short else word[2:].partition("=")[0]
        has_value = len(word) > 2 if is_short else "=" in word
        is_flag = name in _FLAGS or (is_short and word[1] in "lu") or name in _SRUN_FLAGS
        if not has_value and not is_flag:
            position += 1
    return words[position:], position


_SRUN_FLAGS = frozenset({
    "label", "unbuffered", "pty", "kill-on-bad-exit", "exact", "overlap", "multi-prog", "no-allocate",
    "preserve-env", "disable-status", "interactive", "mpi-combine", "whole", "slurmd-debug",
})  # fmt: skip


def _shell(text: str, path: str) -> list[str]:
    """Return the shell of the first line, with its options. Raises CommandFailure for a program
    that is no shell."""
    words = text.splitlines()[0].removeprefix("#!").split()
    if words and PurePosixPath(words[0]).name == "env":
        words = words[1:]
    name = PurePosixPath(words[0]).name if words else ""
    if name not in _SHELLS:
        raise CommandFailure(
            f"{path} is a script of {name or 'nothing'}, and batch scripts are those of a shell.",
            f"give it a name that ends with .py: muster run -- python {PurePath(path).stem}.py"
            if name.startswith("python")
            else "begin with #!/bin/bash",
            exit_code=EXIT_USAGE,
        )
    return [name, *words[1:]]


def _prelude(num_words: int, *, is_task: bool) -> str:
    """Return the shell commands that stand in for Slurm and then read the script.

    num_words: words of srun's options, which are skipped. is_task: whether each process is a task
    of its own rather than a node.
    """
    rank, size = ("$RANK", "$WORLD_SIZE") if is_task else ("$NODE_RANK", "$NNODES")
    node = "${GROUP_RANK:-0}" if is_task else "$NODE_RANK"
    num_nodes = "${GROUP_WORLD_SIZE:-1}" if is_task else "$NNODES"
    of_node = "$LOCAL_WORLD_SIZE" if is_task else "$NPROC_PER_NODE"
    lines = [
        f"SLURM_JOB_ID=$MUSTER_EXPERIMENT_ID SLURM_JOBID=$MUSTER_EXPERIMENT_ID SLURM_NODEID={node}",
        f"SLURM_NNODES={num_nodes} SLURM_JOB_NUM_NODES={num_nodes} SLURM_GPUS_ON_NODE={of_node}",
        f"SLURM_PROCID={rank} SLURM_NTASKS={size} SLURM_NPROCS={size} SLURM_SUBMIT_DIR=$PWD",
        "SLURM_CPUS_PER_TASK=${OMP_NUM_THREADS:-1} SLURM_JOB_NODELIST=${MASTER_ADDR:-127.0.0.1}",
        "SLURM_NODELIST=$SLURM_JOB_NODELIST SLURM_LOCALID=${LOCAL_RANK:-0}",
        'scontrol() { echo "$SLURM_JOB_NODELIST"; }',
    ]
    skip = f"shift {num_words}; " if num_words else ""
    as_task = (
        "SLURM_PROCID=$RANK SLURM_LOCALID=$LOCAL_RANK SLURM_NTASKS=$WORLD_SIZE "
        f"SLURM_NODEID={node} SLURM_JOB_ID=$MUSTER_EXPERIMENT_ID "
        if is_task
        else ""
    )
    lines.append(f'srun() {{ {skip}{as_task}"$@"; }}')
    lines.append('. "./$0"')
    return "\n".join(lines)


def _needs_slurm(problem: str, path: str) -> CommandFailure:
    return CommandFailure(
        f"{path} {problem}, and Muster runs a script on every node.",
        "write a document: entrypoint: bash run.sh, launcher: shell, resources: {slots: 8, nodes: 2}; "
        "run.sh starts its workers with torchrun, to which Muster adds the addresses",
        exit_code=EXIT_USAGE,
    )

"""The command that runs a command line as an experiment, without a document."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from ..absent import server
from ..exit_codes import EXIT_CANCELED, EXIT_FAILED
from ..maintenance_notes import note_maintenance
from ..output import (
    print_json,
    printable,
    printed_json,
    report_outage,
    say,
    usage_error,
    wants_json,
)
from ..sending import (
    CodeOption,
    ReuseOption,
    SetOption,
    UploadRootOption,
    code_keys,
    say_notices,
    submit_with_code,
)
from ..trials import address

if TYPE_CHECKING:
    from muster.client import Client, schema

    from ..command_lines import ParsedCommand
    from ..sbatch.options import SbatchOption

POLL_S = 0.5
NAME_MAX_CHARS = 200
WAITING = frozenset({"QUEUED", "RETRY_WAIT", "PAUSED"})
TERMINAL = frozenset({"COMPLETED", "STOPPED_EARLY", "FAILED", "CANCELED"})
QUIET_LOOK_S = 15.0
"""Seconds between two looks at whether a trial that prints nothing counts as quiet."""
QUIET_TEXT = "(The job has printed nothing and made no step for more than two minutes. Where its processes are:"
_SHOWN_RANKS_MAX = 1000
_SLOTS_KEYS = frozenset({"launcher", "resources", "resources.slots", "resources.min_slots"})
"""Keys with which `--set` chooses how a script is started."""

ArrayOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=ELEMENTS",
        help="Run once for each element: i=0-9, or i=0-9%2 for two at a time; repeatable. The "
        "command finds its element as a variable and as '${i}'.",
    ),
]
LauncherOption = Annotated[
    str | None,
    typer.Option(
        help="How workers are started; takes the values of `launcher` in a document. Default: plain "
        "for a Python script on one slot, torchrun on more, shell for any other command."
    ),
]


def run(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="The command line to run.")
    ],
    slots: Annotated[
        int | None,
        typer.Option("--slots", "-n", min=1, help="Slots, with one worker on each. Default: 1."),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(min=1, help="So many slots, each a GPU: -n N --slot-type cuda."),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Spread the slots evenly over exactly this many nodes."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the experiment. Default: the script's name.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="NAME=VALUE", help="Set a variable; repeatable."),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Pass a secret as a variable; repeatable."),
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Pool of nodes to run in.")] = None,
    slot_type: Annotated[
        Literal["cpu", "cuda"] | None,
        typer.Option(help="Kind of slot. Default: the pool's, or cpu if it has several."),
    ] = None,
    launcher: LauncherOption = None,
    python: Annotated[
        str | None, typer.Option(metavar="PATH", help="Interpreter on the nodes.")
    ] = None,
    array: ArrayOption = None,
    set_: SetOption = None,
    code: CodeOption = None,
    reuse: ReuseOption = False,
    upload_root: UploadRootOption = None,
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Send ignored files that match; repeatable."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Only submit; do not follow the log.")
    ] = False,
) -> None:
    """Run a command line as an experiment: follow its log, and end with its exit code.

    The current folder is sent along, and what the script names above it within the same git checkout.
    Options of this command come before the command line:
    muster run -n 2 -- python train.py --lr 1e-3
    """
    from ..command_lines import parse_command, split_variables

    if gpus is not None:
        if slots not in (None, gpus) or slot_type == "cpu":
            raise usage_error(
                f"--gpus {gpus} contradicts -n or --slot-type.", "--gpus 2 is -n 2 --slot-type cuda"
            )
        slots, slot_type = gpus, "cuda"
    assigned, command = split_variables(command)
    env = [*(env or ()), *assigned]
    if code is not None and upload_root is not None:
        raise usage_error(
            "--upload-root contradicts --code.",
            "--upload-root sends the folder and runs in the current one, --code runs in the folder",
        )
    overrides = [*(set_ or ()), *(("reuse=true",) if reuse else ())]
    given, command = _batch_options(command)
    if (script := _batch_script(command[0], is_named=given is not None)) is not None:
        own = (slots, nodes, name, env, secret, pool, slot_type, launcher, python, code, include)
        if any((*own, array)):
            raise usage_error(
                "A batch script sets these in its #SBATCH lines.",
                "--set changes a value: --set resources.slots=4",
            )
        _run_batch_script(command, script, given or [], overrides, upload_root, detach=detach)
        return
    folder = Path.cwd() if code is None else code
    parsed = parse_command(command, folder)
    document = _document(
        parsed, slots=slots, nodes=nodes, name=name, launcher=launcher, overrides=overrides
    )
    if slot_type is None and not any(text.startswith("resources.slot_type") for text in overrides):
        slot_type = only_kind(pool or "default")
        if slot_type == "cuda":
            say(
                "Every slot of this pool is a GPU, and so is each that this job gets (--slot-type cuda)."
            )
    document["resources"] |= _given(pool=pool, slot_type=slot_type)
    document["environment"] = _given(
        python=python or parsed.python, variables=_variables(env), secrets=secret
    )
    sent = {"path": "."} if code is not None else code_keys(command, upload_root, overrides)
    document["code"] = {**sent, **_given(include=include)}
    document |= _array(array or ())
    for note in parsed.notes:
        say(note)
    start(
        json.dumps(document, indent=2),
        overrides=overrides,
        code=code,
        detach=detach,
        hide_launcher=parsed.is_script and document.get("launcher") in (None, "torchrun"),
    )


def start(
    document: str,
    *,
    overrides: list[str],
    code: Path | None,
    detach: bool,
    hide_launcher: bool,
) -> None:
    """Submit a document with the current folder, and follow it unless `detach`.

    hide_launcher: whether lines of the launcher are left out of the log.
    """
    client = server()
    made = submit_with_code(client, "-", document, overrides, code)
    url = f"{client.target.url}/experiments/{made['id']}"
    say(f"Submitted experiment {made['id']} ({made['name']}): {url}")
    say_notices(made)
    note_maintenance(client, made["id"])
    if detach:
        if not printed_json(made):
            print(made["id"])
        return
    from ..follow import going_on

    with going_on(made["id"]), client.patience(report_outage):
        if made["only_trial_id"] is None:
            _follow_search(client, made["id"])
        code_of_job = _follow(client, made["only_trial_id"], hide_launcher=hide_launcher)
    raise typer.Exit(code_of_job)


def only_kind(pool: str) -> Any:
    """Return the kind of all slots of a pool; None where there are several kinds, or no slots yet."""
    pools = server().get("/cluster")["pools"]
    kinds = {row["slot_type"] for row in pools if row["pool"] == pool}
    return kinds.pop() if len(kinds) == 1 else None


def _run_batch_script(
    command: Sequence[str],
    script: str,
    given: Sequence[SbatchOption],
    overrides: list[str],
    upload_root: Path | None,
    *,
    detach: bool,
) -> None:
    from ..sbatch.reading import document_of

    code = code_keys(command, upload_root, overrides)
    document = document_of(
        server(),
        command[0],
        script,
        arguments=command[1:],
        given=given,
        code=code,
        quiet=wants_json(),
    )
    start(
        document,
        overrides=overrides,
        code=None,
        detach=detach,
        hide_launcher=False,
    )


def _batch_options(command: list[str]) -> tuple[list[SbatchOption] | None, list[str]]:
    """Return the options of a command line of sbatch, and what follows them; None for another command.
    Raises CommandFailure."""
    if command[0] != "sbatch":
        return None, command
    from ..sbatch.options import given_options

    words = command[1:]
    given = list(given_options(words))
    if not words or not Path(words[0]).is_file():
        raise usage_error(
            f"sbatch names {words[0] if words else 'no file'}, which is no script here.",
            "muster run -- sbatch --ntasks=4 train.sh",
        )
    return given, words


def _batch_script(word: str, *, is_named: bool) -> str | None:
    """Return the text of a Slurm batch script; None if the word names something else.

    is_named: whether the command line says that it is one, by sbatch.
    """
    try:
        text = Path(word).read_bytes().decode(errors="replace") if Path(word).is_file() else ""
    except OSError:
        return None
    return text if is_named or (text.startswith("#!") and "\n#SBATCH" in text) else None


def _document(
    parsed: ParsedCommand,
    *,
    slots: int | None,
    nodes: int | None,
    name: str | None,
    launcher: str | None,
    overrides: Sequence[str],
) -> dict[str, Any]:
    """Return the document of a command line. Raises CommandFailure when options contradict it."""
    for option, given, own in (("-n", slots, parsed.slots), ("--nodes", nodes, parsed.nodes)):
        if given is not None and own is not None and given != own:
            raise usage_error(
                f"{option} {given} contradicts the command line, which asks for {own}.",
                f"leave {option} or the option of the command line out",
            )
    num_nodes = nodes if nodes is not None else parsed.nodes
    num_slots = slots if slots is not None else parsed.slots
    resources: dict[str, Any] = {"slots": num_slots if num_slots is not None else num_nodes or 1}
    if num_nodes is not None:
        resources["nodes"] = num_nodes
    # Any number but 1 has the same effect: which of them --set gives is the server's to read.
    is_set = any(text.partition("=")[0].strip() in _SLOTS_KEYS for text in overrides)
    return {
        "name": (name if name is not None else parsed.name)[:NAME_MAX_CHARS],
        "resources": resources,
        **parsed.started(num_slots=0 if is_set else resources["slots"], launcher=launcher),
    }


def _given(**values: Any) -> dict[str, Any]:
    """Return the values that are neither None nor empty."""
    return {name: value for name, value in values.items() if value}


def _array(texts: Sequence[str]) -> dict[str, Any]:
    """Return the array of `--array` options, as it stands in a document. Raises CommandFailure."""
    from muster.document.arrays import InvalidArray, elements_of, ranges_of

    found: dict[str, str] = {}
    at_once: int | None = None
    for text in texts:
        name, equals, written = text.partition("=")
        if not equals or not name:
            raise usage_error(f"--array {text!r} names no elements.", "--array i=0-9")
        try:
            found[name], most = elements_of(written)
            ranges_of(found[name])
        except InvalidArray as invalid:
            raise usage_error(f"--array {text!r} {invalid.problem}.", invalid.hint) from None
        if most is not None and at_once not in (None, most):
            raise usage_error(
                f"--array {text!r} contradicts the {at_once} at a time of another --array.",
                "write % once",
            )
        at_once = most or at_once
    return _given(array=found, max_concurrent=at_once)


def _variables(texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        variable, equals, value = text.partition("=")
        if not equals or not variable:
            raise usage_error(f"--env {text!r} sets no variable.", "--env NAME=VALUE")
        found[variable] = value
    return found


def _follow(client: Client, trial_id: int, *, hide_launcher: bool) -> int:
    """Print the log of a trial until it has ended, and return the exit code of its job."""
    trial = _wait_for_start(client, trial_id)
    ranks = range(trial["num_slots"])
    hides = hide_launcher and len(ranks) <= _SHOWN_RANKS_MAX
    if not wants_json():
        _print_log(client, trial, ranks if hides else ())
    client.wait(trial["experiment_id"], poll_s=POLL_S)
    trial = client.get(f"/trials/{trial_id}")
    if wants_json():
        print_json(trial)
    name = f"{trial['experiment_id']} ({trial['experiment_name']})"
    noted = {notice["text"].lower() for notice in trial["notices"]}
    is_told = trial["reason"] and (
        trial["state"] != "COMPLETED" or f"{trial['reason'].lower()}." in noted
    )
    reason = f": {trial['reason']}" if is_told else ""
    say(f"Experiment {name} is {trial['state']}{reason}")
    return exit_code(trial)


def _print_log(client: Client, trial: schema.TrialOut, ranks: Sequence[int]) -> None:
    """Print the log of a trial until it is complete; say once in each silence that it is quiet."""
    import time

    is_one = trial["num_slots"] == 1
    looked_at, is_quiet = time.monotonic(), False
    for batch in client.log_batches(trial["id"], ranks=ranks, follow=True):
        if isinstance(batch, float):
            time.sleep(batch)
            if time.monotonic() - looked_at >= QUIET_LOOK_S:
                looked_at, was_quiet = time.monotonic(), is_quiet
                is_quiet = "QUIET" in client.get(f"/trials/{trial['id']}")["flags"]
                if is_quiet and not was_quiet:
                    say(f"{QUIET_TEXT} `muster stacks {address(trial)} --last`.)")
            continue
        for line in batch:
            who = "" if is_one or line["rank"] < 0 else f"[rank {line['rank']}] "
            to = sys.stderr if line["stream"] == "stderr" else sys.stdout
            print(
                f"{who}{printable(line['text'])}{' …' if line['cut'] else ''}", file=to, flush=True
            )


def _wait_for_start(client: Client, trial_id: int) -> schema.TrialDetail:
    """Return the trial once it has started or ended; say meanwhile what it waits for."""
    import time

    said = ""
    while True:
        trial: schema.TrialDetail = client.get(f"/trials/{trial_id}")
        if trial["state"] not in WAITING:
            return trial
        reason = trial["pending_reason"]
        if reason and reason != said:
            say(f"Waiting: {reason}")
            said = reason
        time.sleep(POLL_S)


def exit_code(trial: schema.TrialDetail) -> int:
    """Return the exit code that ends the command: that of the job, or that of `muster submit
    --follow` if the job has none."""
    if trial["state"] == "FAILED":
        code = trial["exit_code"]
        return code if code and 0 < code < 256 else EXIT_FAILED
    return EXIT_CANCELED if trial["state"] == "CANCELED" else 0


def _follow_search(client: Client, experiment_id: int) -> NoReturn:
    """Follow an experiment of several trials, and end the command. Raises Exit."""
    from ..follow import follow_to_the_end

    follow_to_the_end(client, experiment_id)
    raise typer.Exit(0)

"""The command that prints logs."""

from __future__ import annotations

import datetime as dt
import re
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.counting import counted

from ..absent import server
from ..output import CommandFailure, printable, report_outage, say, usage_error, wants_json
from ..trials import ExperimentOrTrialArgument, TrialReference, find_trial, numbers_text
from .experiments import StreamName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.client import Client, schema

LEVELS = ("debug", "info", "warning", "error", "critical")
MAX_RANKS = 1000
"""Ranks that one command may name."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


RanksOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rank", "-r", metavar="RANKS", help="Only these ranks: 0, 0,2 or 4-7; -1 is the launcher."
    ),
]
LevelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--level", "-l", metavar="LEVELS", help=f"Only lines of these levels: {', '.join(LEVELS)}."
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only lines since then: 10m, 2h or 3d ago, or a time."),
]
UntilOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only lines before then, in the same format.")
]
GrepOption = Annotated[
    str | None,
    typer.Option("-g", "--grep", metavar="PATTERN", help="Only lines that match; RE2 syntax."),
]
PatternOption = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        help="Print the values that this pattern of metrics.from_log, or preset, would find.",
    ),
]
LineOption = Annotated[
    str, typer.Option(metavar="PATTERN", help="Pattern of the lines to which --pattern applies.")
]
FollowOption = Annotated[
    bool,
    typer.Option(
        "--follow",
        "-f",
        help="Print new lines until the log is complete, even across server outages.",
    ),
]


def logs(
    trial: ExperimentOrTrialArgument,
    rank: RanksOption = None,
    node: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this node; repeatable.")
    ] = None,
    stream: Annotated[StreamName | None, typer.Option(help="Only this stream.")] = None,
    attempt: Annotated[int | None, typer.Option(help="Only this attempt; all by default.")] = None,
    level: LevelsOption = None,
    errors: Annotated[
        bool, typer.Option("--errors", help="Short for --level error --level critical.")
    ] = False,
    since: SinceOption = None,
    until: UntilOption = None,
    query: Annotated[
        str | None, typer.Option("-q", "--query", help="Only lines that contain this text.")
    ] = None,
    grep: GrepOption = None,
    match_case: Annotated[
        bool, typer.Option("--match-case", help="Match case in --query and --grep.")
    ] = False,
    pattern: PatternOption = None,
    metric: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the metric that --pattern finds.")
    ] = "",
    line: LineOption = "",
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=1, help="Only the last N lines.")
    ] = None,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", "-t", help="Show when each line was received.")
    ] = False,
    follow: FollowOption = False,
) -> None:
    """Print the log of a trial, or of all trials of an experiment, with all ranks in order."""
    if query is not None and grep is not None:
        raise usage_error("--query and --grep exclude each other.", "give one of them")
    now = dt.datetime.now().astimezone()
    if pattern is None:
        alone = {"--metric": metric, "--line": line}
        _refuse(alone, "has no effect without --pattern.", "add --pattern")
    else:
        others = {
            "--query": query, "--grep": grep, "--follow": follow, "--tail": tail, "--level": level,
            "--errors": errors, "--since": since, "--until": until,
        }  # fmt: skip
        wrong = "cannot be combined with --pattern, which reads whole logs."
        _refuse(others, wrong, "leave one of them out")
        _print_values(
            trial,
            {
                "pattern": pattern,
                "name": metric or None,
                "line": line or None,
                "rank": parse_ranks(rank or []) or None,
                "node": node or None,
                "stream": stream,
                "attempt": attempt,
            },
        )
        return
    given: dict[str, Any] = {
        "ranks": parse_ranks(rank or []),
        "nodes": node or [],
        "stream": stream,
        "attempt": attempt,
        "levels": parse_levels([*(level or []), *(["error,critical"] if errors else [])]),
        "since": None if since is None else parse_time("--since", since, now),
        "until": None if until is None else parse_time("--until", until, now),
        "query": query if grep is None else grep,
        "regex": grep is not None,
        "match_case": match_case,
        "tail": tail,
        "follow": follow,
    }
    _print_lines(trial, given, timestamps=timestamps)


def _refuse(options: dict[str, Any], wrong: str, hint: str) -> None:
    """Raise CommandFailure for the first of the options that was given."""
    for name, value in options.items():
        if value:
            raise usage_error(f"{name} {wrong}", hint)


def _print_lines(
    trial: TrialReference,
    given: dict[str, Any],
    *,
    timestamps: bool,
) -> None:
    """Print the lines that `given` chooses, or say that there are none."""
    import json

    follow = given["follow"]
    client = server()
    # One trial's log has no bound on its streams, and says "rank 0" rather than "36.1 rank 0".
    is_one = trial.no is not None or _has_one_trial(client.experiment(trial.experiment))
    trial_id = find_trial(trial)["id"] if is_one else None
    several = None if is_one else trial.experiment
    num_hidden = 0
    if trial_id is not None and not (follow or wants_json() or given["ranks"]):
        given["ranks"], num_hidden = _ranks_that_failed(client, trial_id)
    count = 0
    with client.patience(report_outage) if follow else nullcontext():
        for line in client.log_lines(trial_id, experiment_id=several, **given):
            count += 1
            if wants_json():
                print(json.dumps(line, ensure_ascii=False), flush=follow)
            else:
                print(_as_text(line, timestamps, experiment=several), flush=follow)
    if num_hidden and count:
        lines = counted(num_hidden, "line")
        say(f"{lines} of the launcher left out: add `--rank -1` to see them alone.")
    if not count and trial_id is not None:
        _say_no_lines(client, trial_id, given)
    elif not count:
        say("No matching lines yet.")


def _ranks_that_failed(client: Client, trial_id: int) -> tuple[list[int], int]:
    """Return the ranks of a failed trial and the number of lines of their launcher, which says at length
    that one of them has failed, and not why; ([], 0) where that hides nothing, or everything."""
    if client.get(f"/trials/{trial_id}")["state"] != "FAILED":
        return [], 0
    streams = client.get(f"/trials/{trial_id}/logs/streams")["items"]
    ranks = {s["rank"] for s in streams if s["rank"] >= 0 and s["num_lines"]}
    num_hidden = sum(s["num_lines"] for s in streams if s["rank"] < 0)
    return (sorted(ranks), num_hidden) if ranks and len(ranks) <= MAX_RANKS else ([], 0)


def _print_values(trial: TrialReference, params: dict[str, Any]) -> None:
    """Print what a pattern finds in the log of a trial."""
    import json

    trial_id = find_trial(trial)["id"]
    found = server().get(f"/trials/{trial_id}/logs/values", **params)
    if wants_json():
        print(json.dumps(found, ensure_ascii=False))
        return
    num, names = found["num_values"], found["num_names"]
    say(
        f"This pattern finds {counted(num, 'value')} of {counted(names, 'metric')} in {found['num_lines']:,} lines."
    )
    for each in found["names"]:
        last = f"last {each['last']} at step {each['last_step']}"
        print(f"{printable(each['name'])}: {each['num_values']:,} values, {last}")
    for value in found["first"]:
        place = f"step {value['step']}"
        if value["epoch"] is not None:
            place += f", epoch {value['epoch']:g}"
        print(
            f"  {printable(value['name'])} = {value['value']} ({place})  {printable(value['line'])}"
        )
    if found["num_refused"]:
        say(f"{found['num_refused']:,} matches are no values. {printable(found['refused'])}.")
    if found["left_bytes"]:
        say(f"{found['left_bytes']:,} bytes of the log were not searched within the time limit.")


def _has_one_trial(experiment: schema.ExperimentDetail) -> bool:
    """Return whether the selection has one trial, and will get no other."""
    return experiment["only_trial_id"] is not None and experiment["num_trials"] == 1


def parse_ranks(texts: Sequence[str]) -> list[int]:
    """Return the ranks: ["0", "4-6,9"] → [0, 4, 5, 6, 9]; -1 is the launcher. Raises Failure."""
    ranks: set[int] = set()
    for part in (part.strip() for text in texts for part in text.split(",")):
        found = re.fullmatch(r"(-1|\d{1,6})(?:-(\d{1,6}))?", part)
        first = int(found[1]) if found else 0
        last = int(found[2]) if found and found[2] else first
        if found is None or last < first:
            raise usage_error(
                f"--rank {part!r} names no ranks.",
                "ranks are written 0 or 0,2 or 4-7; -1 is the launcher",
            )
        if last - first >= MAX_RANKS or len(ranks | {*range(first, last + 1)}) > MAX_RANKS:
            raise usage_error(
                f"--rank names more than {MAX_RANKS} ranks.", "leave it out to see all of them"
            )
        ranks |= {*range(first, last + 1)}
    return sorted(ranks)


def parse_levels(texts: Sequence[str]) -> list[str]:
    """Return the levels: ["error,critical"] → ["error", "critical"]. Raises Failure."""
    levels = [part.strip().lower() for text in texts for part in text.split(",")]
    wrong = [level for level in levels if level not in LEVELS]
    if wrong:
        raise usage_error(f"--level {wrong[0]!r} is no level.", f"there are {', '.join(LEVELS)}")
    return sorted(set(levels), key=LEVELS.index)


def parse_time(option: str, text: str, now: dt.datetime) -> str:
    """Return a time as the server takes it: "90s", "10m", "2h", "3d" before `now`, or ISO 8601; a
    time without a date is of today, without a zone of this machine's. Raises Failure."""
    ago = re.fullmatch(r"(\d{1,7}(?:\.\d{1,3})?)([smhd])", text.strip())
    try:
        if ago is not None:
            at = now - dt.timedelta(seconds=float(ago[1]) * _UNITS[ago[2]])
        elif re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text.strip()):
            clock = dt.time.fromisoformat(text.strip().zfill(5))
            at = dt.datetime.combine(now.date(), clock).astimezone()
        else:
            at = dt.datetime.fromisoformat(text.strip())
        return at.astimezone(dt.UTC).isoformat()
    except (ValueError, OverflowError):
        raise usage_error(
            f"{option} {text!r} is no time.",
            "write 10m, 2h or 3d for so long ago, 14:05 for today, or 2026-11-21T14:05",
        ) from None


def _as_text(line: schema.LogLine, timestamps: bool, *, experiment: int | None) -> str:
    """Return a line for people. experiment: the one of whose trials the lines are; None for a log
    of one trial."""
    who = line.get("member") or ("launch" if line["rank"] < 0 else f"rank {line['rank']}")
    if experiment is not None:
        who = f"{experiment}.{line['trial_no']} {who}"
    when = ""
    if timestamps:
        at = dt.datetime.fromtimestamp(line["time_ms"] / 1000).astimezone()
        when = f"{at.isoformat(sep=' ', timespec='milliseconds')} "
    return f"{when}[{who}] {printable(line['text'])}{' …' if line['cut'] else ''}"


def _say_no_lines(client: Client, trial_id: int, given: dict[str, Any]) -> None:
    """Explain why nothing was printed. Raises Failure for an attempt, rank or node that does not
    exist."""
    trial = client.get(f"/trials/{trial_id}")
    attempts = [a["no"] for a in trial["attempts"]]
    attempt = given["attempt"]
    if attempt is not None and attempt not in attempts:
        there = f"it has {numbers_text(attempts)}" if attempts else "none was started yet"
        raise CommandFailure(f"There is no attempt {attempt} of this trial.", there)
    known = {w["rank"] for w in client.pages(f"/trials/{trial_id}/workers")} | {-1}
    missing = sorted(set(given["ranks"]) - known)
    if missing and len(known) > 1:
        raise CommandFailure(
            f"There is no rank {numbers_text(missing)} in this trial.",
            f"it has {numbers_text(sorted(known - {-1}))}; -1 is the launcher",
        )
    streams = client.get(f"/trials/{trial_id}/logs/streams")["items"]
    nodes = sorted({s["node_name"] for s in streams})
    absent = sorted(set(given["nodes"]) - set(nodes))
    if absent and nodes:
        raise CommandFailure(
            f"No log of this trial comes from node {absent[0]!r}.", f"from {', '.join(nodes[:20])}"
        )
    num_lines = sum(s["num_lines"] for s in streams)
    say(f"None of the {num_lines:,} lines matches." if num_lines else "No log lines.")

"""Tools that read. What an assistant knows of one is its name, its docstring and its annotations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from muster.client import Client

from .answers import AnswerLine, own, picked, quoted
from .parts import (
    Document,
    Experiment,
    Files,
    Names,
    Overrides,
    Subject,
    ToolFailure,
    TrialName,
    address,
    experiment_row,
    find_trial,
    flat,
    trial_lines,
    uploaded,
    without_parts,
)

PAGE_NAME = re.compile(r"[a-z]+/[a-z-]+")
LOG_LOOKS = 10
"""Pages that are read for one answer; a search in a long log goes on from its cursor."""


def cluster(client: Client) -> Iterator[AnswerLine]:
    """Show who you act as, the nodes and slots of the cluster, and what is stuck, cannot start or failed."""
    me, found = client.me(), client.cluster()
    yield own({"role": me["role"], "you_may": me["permissions"]})
    names = ("num_nodes_online", "num_nodes", "num_slots", "num_slots_free", "num_trials_running")
    yield own(picked(found, *names, "num_trials_queued", "num_failures", "server_version", "now"))
    for kind in ("pools", "stuck", "impossible", "failures", "warnings"):
        for row in found[kind]:
            yield quoted({kind: without_parts(row)})
    for node in client.nodes():
        yield quoted(
            {"node": picked(node, "name", "pool", "state", "state_reason", "health_reason",
                            "num_slots", "num_slots_free", "unavailable")}
        )  # fmt: skip


def list_experiments(
    client: Client,
    state: Annotated[str | None, Field(description="Such as RUNNING, QUEUED or FAILED")] = None,
    project: str | None = None,
    name: Annotated[str | None, Field(description="Part of the name")] = None,
    owner: str | None = None,
    sort: Annotated[
        str | None, Field(description='Column such as "created"; "-" before it: largest first')
    ] = None,
    limit: Annotated[int, Field(ge=1, le=500)] = 20,
) -> Iterator[AnswerLine]:
    """List experiments, newest first, with state, reason and best metric."""
    found = client.experiments(
        state=state, project=project, name=name, owner=owner, sort=sort, limit=limit
    )
    for row in found:
        yield quoted(experiment_row(row))


def show(client: Client, subject: Subject) -> Iterator[AnswerLine]:
    """Show the state of an experiment or trial and the reason: why it failed, waits or ended."""
    if "." in subject:
        yield from trial_lines(client, client.trial(find_trial(client, subject)["id"]))
        return
    found = client.experiment(int(subject))
    counts = ", ".join(f"{num} {state}" for state, num in found["num_trials_by_state"].items())
    yield own(f"Experiment {subject}: {found['state']}; trials: {counts or 'none'}.")
    best = found["best_trial_id"] or found["only_trial_id"]
    yield quoted(experiment_row(found))
    yield quoted(picked(found, "labels", "notes", "overrides", "parent", "budget", "num_children"))
    for notice in (*found["notices"], *([found["standstill"]] if found["standstill"] else [])):
        yield quoted({"notice": notice["text"]})
    if best is not None:
        yield own("Its best or only trial:")
        yield from trial_lines(client, client.trial(best))


def list_trials(
    client: Client,
    experiment: Experiment,
    sort: Annotated[
        str,
        Field(description='"best", or a column: no, state, metric, step, elapsed, hparam.NAME, '
                          'metric.last.NAME; "-" before it: largest first'),
    ] = "best",
    state: Annotated[str | None, Field(description="Such as RUNNING, FAILED or QUEUED")] = None,
    limit: Annotated[int, Field(ge=1, le=500)] = 20,
) -> Iterator[AnswerLine]:  # fmt: skip
    """List the trials of an experiment, the best first, with hyperparameters and metric."""
    of = client.experiment(experiment)
    goal = of["metric_goal"]
    if sort == "best":
        sort = "no" if goal is None else "-metric" if goal == "max" else "metric"
    yield own(f"Trials: {of['num_trials']:,}, sorted by {sort}")
    yield quoted(picked(of, "name", "searcher", "metric_name", "metric_goal"))
    for row in client.pages(
        f"/experiments/{experiment}/trials", sort=sort, state=state, limit=limit
    ):
        shown = {"trial": address(row), **picked(row, "state", "metric", "step", "hparams")}
        yield quoted({**shown, **picked(row, "reason", "pending_reason", "flags")})


def read_document(client: Client, experiment: Experiment) -> Iterator[AnswerLine]:
    """Show the document that an experiment was submitted with, and the changes to it."""
    found = client.experiment(experiment)
    yield own(f"Document of experiment {experiment}; fork_experiment starts another from it.")
    for line in found["document"].splitlines():
        yield quoted(line)
    if found["overrides"]:
        yield quoted({"overrides": found["overrides"]})


def logs(
    client: Client,
    subject: Subject,
    query: Annotated[str | None, Field(max_length=500, description="Text in the line")] = None,
    regex: Annotated[bool, Field(description="Whether query is an RE2 pattern")] = False,
    levels: Annotated[
        Sequence[Literal["debug", "info", "warning", "error", "critical"]], Field(max_length=5)
    ] = (),
    ranks: Annotated[
        Sequence[int], Field(max_length=100, description="-1 is the launcher; none: all")
    ] = (),
    tail: Annotated[int, Field(ge=1, le=2000, description="Number of lines from the end")] = 30,
    cursor: Annotated[
        str | None, Field(description="Where to read on, from the answer before")
    ] = None,
) -> Iterator[AnswerLine]:  # fmt: skip
    """Show the last log lines of a trial or experiment, or the last that match, oldest first."""
    if "." in subject:
        path = f"/trials/{find_trial(client, subject)['id']}/logs"
    else:
        path = f"/experiments/{subject}/logs"
    params = {
        "q": query, "regex": True if regex else None, "level": levels or None, "rank": ranks or None
    }  # fmt: skip
    lines: list[Any] = []
    place: dict[str, Any] = {"cursor": cursor} if cursor else {"from": "tail"}
    for _ in range(LOG_LOOKS):
        page = client.get(path, **params, **place, limit=tail - len(lines))
        lines[:0] = page["lines"]
        place = {"cursor": page["older"]}
        if len(lines) >= tail or not page["older"]:
            break
    yield own(f"Lines: {len(lines):,}, oldest first")
    if page["older"]:
        yield own(f"Lines before these: cursor={page['older']}")
    for line in lines:
        level = f" {line['level']}" if line["level"] else ""
        where = f"{line['trial_no']} rank {line['rank']} {line['stream']} #{line['no']}{level}"
        yield quoted(f"{where}| {line['text']}")


def metrics(
    client: Client,
    trial: TrialName,
    names: Annotated[Names, Field(description="Metrics to read; none: list all of them")] = (),
    points: Annotated[int, Field(ge=2, le=500, description="Points per curve")] = 20,
) -> Iterator[AnswerLine]:
    """List the metrics of a trial (count, min, max, last), or read curves of some, downsampled to means."""
    chosen = find_trial(client, trial)
    if not names:
        for found in client.metrics(chosen["id"]):
            shown = ("name", "rank", "count", "last", "min", "max", "first_step", "last_step")
            non_finite = {"non_finite": found["num_non_finite"]} if found["num_non_finite"] else {}
            yield quoted({**picked(found, *shown), **non_finite})
        return
    curves: dict[tuple[str, int], list[list[Any]]] = {}
    for row in client.curves([chosen["id"]], names, max_points=points).rows():
        curves.setdefault((row["name"], row["rank"]), []).append([row["step"], row["value"]])
    if missing := [name for name in names if name not in {name for name, _ in curves}]:
        yield quoted({"not_recorded": missing})
    for (name, rank), values in curves.items():
        yield quoted({"name": name, "rank": rank, "step_value": values})


def compare(
    client: Client,
    trials: Annotated[
        list[TrialName], Field(min_length=2, max_length=10, description='Such as ["36.4", "36.9"]')
    ],
    names: Annotated[Names, Field(description="Metrics; none: those that all have")] = (),
) -> Iterator[AnswerLine]:
    """Compare trials: hyperparameters and settings that differ, and their metrics side by side."""
    found = [client.trial(find_trial(client, name)["id"]) for name in trials]
    configs = [dict(flat({"hparams": one["hparams"], **one["config"]})) for one in found]
    paths = dict.fromkeys(path for config in configs for path in config)
    addresses = [address(one) for one in found]
    yield own({"trials": addresses, "states": [one["state"] for one in found]})
    yield quoted({"steps": [one["step"] for one in found], "metric": [one["metric"] for one in found],
                  "metric_name": found[0]["metric_name"], "goal": found[0]["metric_goal"]})  # fmt: skip
    yield own("What differs, in the order of the trials:")
    for path in paths:
        values = [config.get(path) for config in configs]
        is_copy = path.startswith("hyperparameters.") or path in ("name", "search")
        if not is_copy and any(value != values[0] for value in values):
            yield quoted({path: values})
    shared = set.intersection(*(set(one["summary"]) for one in found))
    yield own("Metrics, each of its lowest rank: last, min and max, in the order of the trials:")
    # The metric that the search compares comes first.
    for name in names or sorted(shared, key=lambda name: (name != found[0]["metric_name"], name)):
        each = [one["summary"].get(name) for one in found]
        yield quoted({name: [each_one and [each_one["last"], each_one["min"], each_one["max"]]
                             for each_one in each]})  # fmt: skip


def performance(
    client: Client,
    trial: TrialName,
    rows: Annotated[int, Field(ge=1, le=1000, description="Newest rows of each rank")] = 100,
) -> Iterator[AnswerLine]:
    """Show what bounds the steps of a trial, which rank is slow, and each rank's times in ms."""
    chosen = find_trial(client, trial)
    found = client.get(f"/trials/{chosen['id']}/performance", rows=rows)
    if not found["ranks"]:
        yield own(
            f"Trial {address(chosen)} has measured no steps; see read_docs concepts/measuring."
        )
        return
    verdict, culprit = found["bottleneck"], found["culprit"]
    yield own({"verdict": verdict and verdict["kind"], "slow_rank": culprit and culprit["rank"]})
    if verdict is not None:
        yield quoted(f"{verdict['headline']} {verdict['reason']}")
    if culprit is not None and (verdict is None or verdict["kind"] != "waiting"):
        yield quoted(culprit["reason"])
    yield own(
        picked(found, "figures", "first_step", "last_step", "num_rows", "num_ranks", "imbalance")
    )
    yield own("Ranks, those that hold up others most first:")
    times = ("rank", "step_ms", "wait_ms", "held_up_ms", "validation_ms", "parts", "stage")
    for rank in sorted(found["ranks"], key=lambda rank: -(rank["held_up_ms"] or 0.0)):
        yield own(picked(rank, *times))
    for use in found["foreign"]:
        yield quoted(use)
    for kind in found["traffic"]:
        yield quoted(picked(kind, "group", "kind", "count", "num_bytes", "time_ms", "wait_ms"))


def diagnosis(client: Client, trial: TrialName) -> Iterator[AnswerLine]:
    """Show the newest diagnosis of a trial: what limits its speed, by measured probes, and advice."""
    chosen = find_trial(client, trial)
    found = client.get(f"/trials/{chosen['id']}/diagnoses", limit=1)["items"]
    if not found:
        yield own("There is none; start_diagnosis runs one, performance tells what steps measured.")
        return
    yield own(picked(found[0], "state", "verdict", "culprit_rank", "culprit_part", "shares"))
    yield quoted(found[0]["reason"])
    for advice in found[0]["advice"]:
        yield quoted(picked(advice, "kind", "text", "overrides", "gain", "is_bound"))
    for note in found[0]["notes"]:
        yield quoted(note)


def queue(
    client: Client,
    experiment: Annotated[int | None, Field(ge=1, description="Only this experiment")] = None,
) -> Iterator[AnswerLine]:
    """List trials that wait for slots: position, why each waits, and when it may start."""
    found = [one for one in client.queue() if experiment in (None, one["experiment_id"])]
    yield own(f"Waiting trials: {len(found):,}")
    asks = (
        "position",
        "pending_reason",
        "is_impossible",
        "estimated_start_at",
        "num_slots",
        "min_slots",
    )
    for one in found:
        trial = f"{one['experiment_id']}.{one['trial_no']}"
        more = ("slot_type", "pool", "priority", "waiting_since", "experiment_name", "owner")
        yield quoted({"trial": trial, **picked(one, *asks, *more)})


def goodput(
    client: Client,
    trial: Annotated[TrialName | None, Field(description="Without it, the whole cluster")] = None,
    days: Annotated[int, Field(ge=1, le=366)] = 7,
    by: Literal["project", "pool", "user"] = "project",
) -> Iterator[AnswerLine]:
    """Show where slot time went (productive, repeated, stalled, starting …), in seconds."""
    names = ("allocated_s", "queued_s", "cost", "currency", "classes", "counted_until")
    if trial is not None:
        of_trial = client.get(f"/trials/{find_trial(client, trial)['id']}/goodput")
        yield own(picked(of_trial, *names))
        yield quoted(picked(of_trial, "headline", "save_interval", "continuation", "efficiency"))
        return
    found = client.get("/goodput", days=days, by=by)
    yield own(picked(found, *names))
    yield quoted(found["headline"] or "No slot was held.")
    for group in found["groups"]:
        yield quoted({by: without_parts(group)})
    for losing in found["trials"]:
        yield quoted({"losing": without_parts(losing)})


def events(
    client: Client,
    subject: Subject,
    limit: Annotated[int, Field(ge=1, le=500)] = 30,
) -> Iterator[AnswerLine]:
    """List what happened to an experiment or trial, newest first."""
    if "." in subject:
        found = client.events(trial_id=find_trial(client, subject)["id"], limit=limit)
    else:
        found = client.events(experiment_id=int(subject), limit=limit)
    for event in found:
        yield quoted(f"{event['at']} {event['level']} {event['type']}: {event['message']}")


def checkpoints(client: Client, trial: TrialName) -> Iterator[AnswerLine]:
    """List the checkpoints of a trial, newest first, with their ids for fork_experiment."""
    for row in client.pages(f"/trials/{find_trial(client, trial)['id']}/checkpoints"):
        names = ("id", "step", "epoch", "state", "is_latest", "is_best", "metrics", "size_bytes")
        yield quoted(picked(row, *names))


def preview(
    client: Client, document: Document, files: Files = None, overrides: Overrides = ()
) -> Iterator[AnswerLine]:
    """Check a document and its code without submitting it: mistakes, number of trials, where it would run."""
    digest, more = uploaded(client, files)
    found = client.preview(document, overrides=[*overrides, *more], blob_sha256=digest)
    yield own("The document is valid." if found["valid"] else "The document has mistakes:")
    for kind in ("errors", "warnings"):
        for problem in found[kind]:
            yield own({kind[:-1]: picked(problem, "path", "message", "hint")})
    names = ("num_trials", "concurrent", "fits_now", "fit_reason", "is_impossible", "position")
    yield quoted(picked(found, *names, "estimated_start_at", "preempts", "plan", "guards"))
    for notice in found.get("notices", []):
        yield quoted({"notice": notice["text"]})


def read_docs(
    client: Client,
    page: Annotated[
        str, Field(max_length=100, description='Such as "guides/experiments"; none: list')
    ] = "",
    find: Annotated[str, Field(max_length=100, description="Only sections with this text")] = "",
) -> Iterator[AnswerLine]:
    """Read Muster's documentation: the list of pages, or one of them."""
    try:
        if page and not PAGE_NAME.fullmatch(page):
            raise LookupError
        reply = client.call(
            "GET", f"/docs/{page}.md" if page else "/llms.txt", api="", accept=(404,)
        )
        if reply.status_code == 404:
            raise LookupError
    except LookupError:
        raise ToolFailure(
            f"This server has no page {page!r}; read_docs without a page lists them."
        ) from None
    text = reply.text
    section: list[str] = []
    is_code = False
    for line in [*text.splitlines(), "# "]:
        is_code ^= line.startswith("```")
        if line.startswith("#") and not is_code:
            if find.lower() in "\n".join(section).lower():
                yield from map(own, section)
            section = []
        section.append(line)

"""Import of runs that wandb has recorded offline, as unmanaged runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.numbers import encode_number
from muster.series_rules import clean_name, number_of, whole_step

from .absent import server
from .exit_codes import EXIT_ERROR
from .output import print_json, say, usage_error, wants_json

if TYPE_CHECKING:
    from muster.client import Client
    from muster.importing.wandb import HistoryRow, WandbRun

API = "/mlflow/api/2.0/mlflow"
METRICS_MAX = 1_000
PAIRS_MAX = 100
"""Most metrics, and most params or tags, of one request."""
NAME_TAG = "mlflow.runName"


def wandb(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A run's folder, one above it such as wandb/, or a .wandb file."
        ),
    ],
    project: Annotated[
        str | None,
        typer.Option(help="Experiment of MLflow to import into. Default: the runs' own project."),
    ] = None,
) -> None:
    """Import runs that wandb has recorded offline.

    Each becomes an unmanaged run with its config, history, tags and notes. Importing it again adds and
    changes what is new. Only numbers of the history are imported; the rest is counted. Of a damaged file,
    what precedes the damage is imported.
    """
    files = _run_files(folder)
    if not files:
        raise usage_error(
            f"{folder} has no run of wandb.",
            hint="name a folder with offline-run-*/run-*.wandb in it, such as wandb/",
        )
    done: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    for file in files:
        found = _import_file(server(), file, project)
        (failed if "error" in found else done).append(found)
        if wants_json():
            continue
        if "error" in found:
            say(f"{file}: not imported: {found['error']}")
        else:
            say(_sentence(found))
    if wants_json():
        print_json({"imported": done, "failed": failed})
    if failed:
        raise typer.Exit(EXIT_ERROR)


def _run_files(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    found = [*folder.glob("*.wandb"), *folder.glob("*run-*/*.wandb")]
    found += folder.glob("wandb/*run-*/*.wandb")
    # `latest-run` is a link to one of the others.
    return sorted({path.resolve() for path in found})


def _import_file(client: Client, path: Path, project: str | None) -> dict[str, Any]:
    from muster.importing.wandb import UnreadableRun, WandbRun, read_run

    run = WandbRun()
    try:
        with path.open("rb") as file:
            for _ in read_run(file, run):
                pass
        if not run.run_id:
            raise UnreadableRun(run.damage or "it does not say which run it is of")
        with path.open("rb") as file:
            return _send(client, run, read_run(file, WandbRun()), project or run.project or "wandb")
    except (UnreadableRun, OSError) as error:
        return {"file": str(path), "error": str(error)}


def _send(
    client: Client, run: WandbRun, history: Iterable[HistoryRow], project: str
) -> dict[str, Any]:
    def post(path: str, **body: Any) -> Any:
        # Repeating any of these changes nothing.
        return client.call("POST", path, body=body, repeatable=True, api=API).json()

    name = run.name or run.run_id
    run_id = post(
        "/runs/create",
        experiment_id=_experiment(client, project),
        run_name=name,
        start_time=int(run.started_s * 1000),
        tags=[
            {"key": "muster.client", "value": "wandb"},
            {"key": "muster.importId", "value": f"wandb/{project}/{run.run_id}"},
        ],
    )["run"]["info"]["run_id"]
    for pairs in _batches(_params(run).items(), PAIRS_MAX):
        params = [{"key": key, "value": value} for key, value in pairs]
        post("/runs/log-batch", run_id=run_id, params=params)
    tags = [{"key": key, "value": value} for key, value in (_tags(run) | {NAME_TAG: name}).items()]
    post("/runs/log-batch", run_id=run_id, tags=tags)
    counts = {"points": 0, "others": 0}
    last: list[HistoryRow] = []
    for metrics in _batches(_metrics(history, counts, last), METRICS_MAX):
        post("/runs/log-batch", run_id=run_id, metrics=metrics)
    status = "KILLED"  # Behind the damage there is no end.
    if run.exit_code is not None:
        status = "FINISHED" if run.exit_code == 0 else "FAILED"
    if run.exit_code is not None or run.damage:
        ended = {"end_time": int(last[-1].time_s * 1000)} if last else {}
        post("/runs/update", run_id=run_id, status=status, **ended)
    return {
        "run": run.run_id,
        "name": run.name,
        "project": project,
        "run_id": run_id,
        "num_points": counts["points"],
        "num_other_values": counts["others"],
        "has_ended": run.exit_code is not None,
        "damage": run.damage,
    }


def _experiment(client: Client, name: str) -> str:
    reply = client.call(
        "GET", "/experiments/get-by-name", params={"experiment_name": name}, api=API, accept=(404,)
    )
    if reply.status_code != 404:
        return str(reply.json()["experiment"]["experiment_id"])
    made = client.call("POST", "/experiments/create", body={"name": name}, api=API)
    return str(made.json()["experiment_id"])


def _params(run: WandbRun) -> dict[str, str]:
    from muster.importing.wandb import flattened

    own = {key: value for key, value in flattened(run.config).items() if key[:1] != "_"}
    return {
        _key(key): value if isinstance(value, str) else str(value) for key, value in own.items()
    }


def _tags(run: WandbRun) -> dict[str, str]:
    tags = {
        "wandb.run_id": run.run_id,
        "wandb.group": run.group,
        "wandb.job_type": run.job_type,
        "wandb.tags": ", ".join(run.tags),
        "mlflow.note.content": run.notes,
    }
    return {key: value for key, value in tags.items() if value}


def _metrics(
    history: Iterable[HistoryRow], counts: dict[str, int], last: list[HistoryRow]
) -> Iterator[dict[str, Any]]:
    for row in history:
        last[:] = [row]
        for key, value in row.values.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            number = number_of(value)[0] if is_number else None
            if number is None or whole_step(row.step)[0] is None:
                counts["others"] += 1
                continue
            counts["points"] += 1
            yield {
                "key": _key(key),
                "value": encode_number(number),
                "timestamp": int(row.time_s * 1000),
                "step": row.step,
            }


def _key(name: str) -> str:
    """Return a name as a key of MLflow's API, which has paths; a digest keeps changed ones apart."""
    clean = clean_name(name)
    key = "/".join(part for part in clean.split("/") if part.strip(".")).lstrip(".") or "_"
    return key if key == clean else f"{key}~{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _sentence(found: dict[str, Any]) -> str:
    left_out = found["num_other_values"]
    more = f"; {left_out} values that are not numbers were left out" if left_out else ""
    if found["damage"]:
        return f"{found['name'] or found['run']}: {found['num_points']} values{more}; {found['damage']}: nothing behind it was read"
    ended = "" if found["has_ended"] else "; it has not ended, so import it again when it has"
    return f"{found['name'] or found['run']}: {found['num_points']} values{more}{ended}"

"""Commands about models: list, show, register, upload, alias, promote, evaluate, leaderboard,
export, pull, history, edit, delete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.byte_sizes import byte_size
from muster.cli.absent import server
from muster.cli.commands.operations import count
from muster.cli.commands.outputs import parse_bytes
from muster.cli.group import CommandSet
from muster.cli.output import (
    CommandFailure,
    age,
    console,
    escape,
    number,
    printable,
    printed_json,
    report,
    say,
    table,
    usage_error,
    wants_json,
)
from muster.cli.selecting import YesOption
from muster.cli.trials import TrialReference, find_trial, parse_trial
from muster.document.inference import ExportFormat

if TYPE_CHECKING:
    from muster.client import Client, schema

app = CommandSet(help="Models: versions, aliases, promotion, and pulling them anywhere.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the model.")]
ReferenceArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="NAME:3 for a version, NAME@production for an alias, NAME."
    ),
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why, for the history.")]
TagOption = Annotated[
    list[str] | None, typer.Option("--tag", metavar="KEY=VALUE", help="Tag of the version.")
]
NotesOption = Annotated[str, typer.Option("--notes", help="Notes in Markdown.")]
ProjectOption = Annotated[
    str | None, typer.Option("--project", help="Project of the model, if this creates it.")
]


@app.command("list")
def list_(
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="Part of the name or description.")
    ] = None,
    project: Annotated[str | None, typer.Option("--project", help="Only of this project.")] = None,
) -> None:
    """List models with their aliases."""
    found = server().models(project=project, text=text)
    if printed_json(found):
        return
    if not found:
        say("No models yet: `muster model register NAME --checkpoint N` makes one.")
        return
    shown = table(
        "name", "versions", "latest", "aliases", "project", "changed", right=("versions", "latest")
    )
    for row in found:
        names = [f"{each['name']} → {each['version']}" for each in row["aliases"]]
        shown.add_row(
            escape(row["name"]),
            str(row["num_versions"]),
            number(row["latest_version"]),
            ", ".join(names),
            escape(row["project"]),
            f"{age(row['updated_at'])} ago",
        )
    console().print(shown)


@app.command("show")
def show(reference: ReferenceArgument) -> None:
    """Show the versions of a model, or one version with its card.

    A name alone lists the versions. NAME:3 and NAME@production print the model card in Markdown: where
    the version comes from, its metrics, its files, and your notes.
    """
    client = server()
    if ":" in reference or "@" in reference:
        version = client.model_version(reference)
        exports = client.model_exports(reference)
        if printed_json({**version, "exports": exports}):
            return
        _print_version(version)
        if exports:
            _print_exports(exports)
        return
    model = client.get(f"/models/{reference}")
    versions = client.model_versions(reference)
    rules = list(client.pages(f"/models/{reference}/promotions"))
    if printed_json({**model, "versions": versions, "promotions": rules}):
        return
    if model["description"]:
        print(printable(model["description"]))
    _print_versions(versions)
    for rule in rules:
        if rule["state"] == "waiting":
            say(f"{rule['alias']}: best {rule['metric']} ({rule['goal']}) {rule['message']}.")


def _print_versions(versions: list[schema.ModelVersionItem]) -> None:
    shown = table("version", "from", "metrics", "aliases", "size", "registered", right=("size",))
    for row in versions:
        metrics = [f"{name} {number(value)}" for name, value in list(row["metrics"].items())[:2]]
        shown.add_row(
            str(row["number"]),
            _source(row),
            escape(", ".join(metrics)),
            ", ".join(row["aliases"]),
            byte_size(row["size_bytes"]) if row["state"] == "ready" else row["state"],
            f"{age(row['created_at'])} ago",
        )
    console().print(shown)
    if any(row["is_unsafe"] for row in versions):
        say("Some versions have files that can run code when they are loaded: pull with care.")


def _source(row: schema.ModelVersionItem) -> str:
    if row["source"] == "checkpoint":
        return f"step {row['step']} of experiment {row['experiment_id']}"
    if row["source"] == "upload":
        return "an upload"
    return f"{row['source']} of experiment {row['experiment_id']}"


def _print_version(version: schema.ModelVersionOut) -> None:
    print("\n".join(printable(line) for line in version["card"].splitlines()))
    if version["state"] != "ready":
        say(f"It is not ready: {version['message'] or 'a node reads its checkpoint'}.")
    for file in version["files"]:
        if file["warning"]:
            say(f"{printable(file['path'])}: {file['warning']}")


@app.command("register")
def register(
    name: NameArgument,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="With --outputs: its files and folders."),
    ] = None,
    checkpoint: Annotated[
        int | None, typer.Option("--checkpoint", metavar="N", help="Number of a checkpoint.")
    ] = None,
    best: Annotated[
        TrialReference | None,
        typer.Option(
            "--best",
            metavar="TRIAL",
            parser=parse_trial,
            help="Best checkpoint of a trial: 36.2, or 36 for the best trial of experiment 36.",
        ),
    ] = None,
    outputs: Annotated[
        TrialReference | None,
        typer.Option(
            "--outputs",
            metavar="TRIAL",
            parser=parse_trial,
            help="A trial that has ended: 36.2, or 36 for the only one.",
        ),
    ] = None,
    tags: TagOption = None,
    notes: NotesOption = "",
    project: ProjectOption = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until its digest is known.")
    ] = True,
) -> None:
    """Register a version from a checkpoint, or from the outputs of a trial.

    Nothing is copied: the checkpoint or the outputs are kept for as long as the version is there. The
    same files once more are the same version. A model that does not exist is created.
    """
    num_sources = sum(source is not None for source in (checkpoint, best, outputs))
    if num_sources != 1 or (paths and outputs is None):
        raise usage_error(
            "A version is made of one checkpoint, or of outputs.",
            "use --checkpoint N, --best TRIAL, or --outputs TRIAL [PATH]...",
        )
    more = _more(tags, notes, project)
    client = server()
    trial_id = find_trial(outputs)["id"] if outputs is not None else None
    if best is not None:
        checkpoint = _best_checkpoint(client, best)
    version = client.register_model(
        name, checkpoint_id=checkpoint, trial_id=trial_id, paths=paths or (), **more
    )
    is_new = version["is_new"]
    if wait and version["state"] != "ready":
        say("Waiting for a node to read the checkpoint.")
        version = client.wait_for_model(f"{version['model']}:{version['number']}")
    _report_version(version, is_new=is_new)


def _best_checkpoint(client: Client, reference: TrialReference) -> int:
    """Return the number of the best checkpoint of a trial, or of the best trial of an experiment."""
    trial_id = None
    if reference.no is None:
        trial_id = client.experiment(reference.experiment)["best_trial_id"]
    if trial_id is None:
        trial_id = find_trial(reference)["id"]
    found = next((c for c in client.pages(f"/trials/{trial_id}/checkpoints") if c["is_best"]), None)
    if found is None:
        raise CommandFailure(
            f"Trial {reference} has no checkpoint with a finite value of its metric.",
            "`muster checkpoint list` shows its checkpoints; use --checkpoint N",
        )
    return int(found["id"])


@app.command("upload")
def upload(
    name: NameArgument,
    source: Annotated[Path, typer.Argument(metavar="PATH", help="File or folder to upload.")],
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metric", metavar="NAME=NUMBER", help="Metric of the version."),
    ] = None,
    tags: TagOption = None,
    notes: NotesOption = "",
    project: ProjectOption = None,
) -> None:
    """Upload a file or a folder as a new version.

    After an interruption, run it again: what has arrived is not sent again.
    """
    more = _more(tags, notes, project)
    if metrics:
        more["metrics"] = {
            key: _number(key, value) for key, value in _pairs(metrics, of_metrics=True).items()
        }
    version = server().upload_model(name, source, on_progress=say, **more)
    _report_version(version, is_new=version["is_new"])


@app.command("alias")
def alias(
    name: NameArgument,
    alias: Annotated[str, typer.Argument(metavar="ALIAS", help="Such as candidate.")],
    version: Annotated[
        int | None, typer.Argument(metavar="[VERSION]", help="Version that it names from now on.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the alias.")] = False,
    reason: ReasonOption = "",
) -> None:
    """Let an alias name a version, or remove it. The history keeps who moved it, when and why."""
    if remove == (version is not None):
        raise usage_error("Which version?", "give its number, or --remove")
    if version is None:
        server().delete_model_alias(name, alias, reason=reason)
        done: schema.ModelAliasOut | dict[str, Any] = {"name": alias, "version": None}
    else:
        done = server().set_model_alias(name, alias, version, reason=reason)
    text = f"{name}@{alias} is removed." if remove else f"{name}@{alias} is version {version} now."
    report(done, text)


@app.command("promote")
def promote(
    name: NameArgument,
    experiment: Annotated[
        int, typer.Option("--experiment", metavar="N", help="Experiment whose best is promoted.")
    ],
    to: Annotated[str, typer.Option("--to", metavar="ALIAS", help="Such as candidate.")],
    metric: Annotated[
        str | None, typer.Option("--metric", help="Default: the search metric.")
    ] = None,
    goal: Annotated[
        str | None, typer.Option("--goal", metavar="min|max", help="Which values are better.")
    ] = None,
) -> None:
    """Let the best checkpoint of an experiment become an alias when the experiment has ended.

    The alias only moves to a better value than that of the version it names then. Checkpoints without
    a value, or with NaN, never win.
    """
    if goal not in (None, "min", "max"):
        raise usage_error(f"--goal is {goal!r}.", "it must be min or max")
    rule = server().promote_model(
        name,
        to,
        experiment,
        metric=metric,
        goal=goal,  # type: ignore[arg-type]
    )
    sign = "lowest" if rule["goal"] == "min" else "highest"
    text = (
        f"When experiment {experiment} has ended, its checkpoint with the {sign} {rule['metric']} becomes "
        f"{name}@{to}."
    )
    report(rule, text)


@app.command("evaluate")
def evaluate(
    reference: ReferenceArgument,
    data: Annotated[
        str,
        typer.Option(
            "--data", help="digits, shakespeare, synthetic, or module:function of your code."
        ),
    ] = "digits",
    split: Annotated[str, typer.Option("--split", help="train, val or test.")] = "test",
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", help="Samples at once. Default: 256.")
    ] = None,
    code: Annotated[
        Path | None,
        typer.Option("--code", metavar="DIR", help="Folder of your functions, which is sent."),
    ] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Pool to run in.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for the end, and show the result.")
    ] = True,
) -> None:
    """Judge a version by the samples of a data set, in a job of its own.

    The alias is resolved once, when the job is submitted. With --no-wait, the result is on the page of
    the version, and in `muster model leaderboard`.
    """
    more: dict[str, Any] = {"resources": {"pool": pool}} if pool else {}
    client = server()
    made = client.evaluate_model(
        reference, data=data, split=split, batch_size=batch_size, code=code, **more
    )
    if not wait:
        text = f"Submitted as experiment {made['id']}: `muster show {made['id']}`."
        report(made, text)
        return
    say(f"Experiment {made['id']} evaluates {reference} by {data}.")
    ended = client.wait(made["id"])
    use = next(use for use in client.model_uses(made["id"]) if use["kind"] == "evaluation")
    if use["result"] is None:
        raise CommandFailure(
            f"Experiment {made['id']} ended without a result: it is {ended['state']}.",
            f"`muster logs {made['id']}` and `muster show {made['id']}` say why",
        )
    if printed_json(use):
        return
    _print_evaluation(use, use["result"])


def _print_evaluation(use: schema.ModelUseOut, result: dict[str, Any]) -> None:
    say(
        f"{use['model']}:{use['version']}, {result['num_samples']:,} samples of {result['data']} "
        f"({result['split']}):"
    )
    shown = table("metric", "value", right=("value",))
    for name, value in {**result["metrics"], **result["speed"]}.items():
        shown.add_row(escape(name), number(value))
    shown.add_row("parameters", f"{result['num_parameters']:,}")
    shown.add_row("peak memory", byte_size(result["peak_memory_bytes"]))
    console().print(shown)
    if result["classes"]:
        classes = table(
            "class", "samples", "precision", "recall", "F1",
            right=("samples", "precision", "recall", "F1"),
        )  # fmt: skip
        for each in result["classes"]:
            scores = (number(each[name]) for name in ("precision", "recall", "f1"))
            classes.add_row(escape(each["name"]), str(each["num_samples"]), *scores)
        console().print(classes)


@app.command("leaderboard")
def leaderboard(
    data: Annotated[str | None, typer.Option("--data", help="Only of this data set.")] = None,
) -> None:
    """Rank the evaluated versions, for each data set.

    Only evaluations by the same samples, and the same code of the metrics, are ranked together.
    """
    found = server().model_leaderboards(data)
    if printed_json(found):
        return
    if not found:
        say("No evaluations yet: `muster model evaluate NAME --data digits` makes one.")
    for board in found:
        say(
            f"{board['data']} ({board['split']}, {board['data_digest'][:19]}…): "
            f"{count(board['num_versions'], 'version')}, by {board['metric']}"
        )
        _print_leaderboard(board)


def _print_leaderboard(board: schema.LeaderboardOut) -> None:
    shown = table(
        "rank", "version", "aliases", board["metric"], "p50 ms", "rows/s", "parameters", "device",
        right=("rank", board["metric"], "p50 ms", "rows/s", "parameters"),
    )  # fmt: skip
    for row in board["rows"]:
        shown.add_row(
            number(row["rank"]),
            escape(f"{row['model']}:{row['version']}"),
            ", ".join(row["aliases"]),
            number(row["metrics"].get(board["metric"])),
            number(row["speed"].get("latency_p50_ms")),
            number(row["speed"].get("rows_per_s")),
            number(row["num_parameters"]),
            escape(row["device"]),
        )
    console().print(shown)


@app.command("history")
def history(
    name: NameArgument,
    alias: Annotated[
        str | None, typer.Argument(metavar="[ALIAS]", help="Only of this alias.")
    ] = None,
) -> None:
    """Show which version each alias named when, who moved it, and why."""
    moves = server().model_history(name, alias=alias)
    rules = list(server().pages(f"/models/{name}/promotions"))
    if printed_json({"moves": moves, "promotions": rules}):
        return
    shown = table("when", "alias", "version", "before", "by", "why", right=("version", "before"))
    for row in moves:
        shown.add_row(
            f"{age(row['at'])} ago",
            row["alias"],
            "removed" if row["version"] is None else str(row["version"]),
            number(row["previous"]),
            escape(row["by"]),
            escape(row["reason"]),
        )
    console().print(shown)
    for rule in rules:
        if rule["state"] in ("kept", "refused") and alias in (None, rule["alias"]):
            say(
                f"Experiment {rule['experiment_id']} did not move {rule['alias']}: {rule['message']}."
            )


@app.command("export")
def export(
    reference: ReferenceArgument,
    formats: Annotated[
        list[str],
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="safetensors, hf, pt2 or onnx; more than once for several.",
        ),
    ],
    requirements: Annotated[
        list[str] | None,
        typer.Option(
            "--requirement", metavar="PACKAGE", help="Package to install for the job, such as onnx."
        ),
    ] = None,
    code: Annotated[
        Path | None,
        typer.Option("--code", metavar="DIR", help="Folder of your functions, which is sent."),
    ] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Pool to run in.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for the end, and show the exports.")
    ] = True,
) -> None:
    """Write a version for other programs, in a job of its own.

    Each export is loaded again, and its answers are compared with those of the checkpoint: one that
    differs by more than its tolerance fails. `muster model pull NAME:3 DIR --format onnx` fetches the
    files of the newest one.
    """
    more: dict[str, Any] = {"resources": {"pool": pool}} if pool else {}
    if requirements:
        more["environment"] = {"requirements": requirements}
    client = server()
    made = client.export_model(reference, formats, code=code, **more)
    if not wait:
        text = f"Submitted as experiment {made['id']}: `muster show {made['id']}`."
        report(made, text)
        return
    say(f"Experiment {made['id']} exports {reference} as {', '.join(formats)}.")
    ended = client.wait(made["id"])
    (use,) = (use for use in client.model_uses(made["id"]) if use["kind"] == "export")
    jobs = client.model_exports(f"{use['model']}:{use['version']}")
    job = next(job for job in jobs if job["experiment_id"] == made["id"])
    if not printed_json(job):
        _print_exports([job])
    if ended["state"] != "COMPLETED":
        raise CommandFailure(
            f"Experiment {made['id']} is {ended['state']}.",
            f"`muster logs {made['id']}` and `muster show {made['id']}` say why",
        )


def _print_exports(jobs: list[schema.ModelExportJobOut]) -> None:
    shown = table(
        "experiment", "format", "state", "size", "difference", "digest",
        right=("experiment", "size"),
    )  # fmt: skip
    for job in jobs:
        for each in job["exports"]:
            is_done = each["state"] == "done"
            shown.add_row(
                str(job["experiment_id"]),
                each["format"],
                each["state"],
                byte_size(each["size_bytes"]) if is_done else "",
                _difference(each["comparison"]) if is_done else escape(each["message"]),
                each["digest"][:19],
            )
    console().print(shown)


def _difference(comparison: schema.ExportComparisonOut | None) -> str:
    if comparison is None or comparison["verdict"] == "not_compared":
        return "not compared"
    return f"{number(comparison['max_abs'])} ({comparison['verdict']})"


@app.command("pull")
def pull(
    reference: ReferenceArgument,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to fetch it into.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that are there with other content.")
    ] = False,
    cache: Annotated[
        Path | None,
        typer.Option("--cache", metavar="DIR", help="Folder that keeps files for further pulls."),
    ] = None,
    cache_size: Annotated[
        int | None,
        typer.Option(
            "--cache-size",
            metavar="SIZE",
            parser=parse_bytes,
            help="Most bytes of the cache, such as 50GB. Default: 20GB.",
        ),
    ] = None,
    format_: Annotated[
        ExportFormat | None,
        typer.Option("--format", help="Fetch its newest finished export instead."),
    ] = None,
) -> None:
    """Fetch the files of a version, each verified by its digest.

    All files appear in the folder at once, or after an error none of them. After an interruption, run
    the same command again: it continues where it was cut off.
    """
    if format_ is not None and cache is not None:
        raise usage_error("Exports are not cached.", "leave --cache or --format out")
    pulled = server().pull_model(
        reference,
        folder,
        force=force,
        cache=cache,
        cache_bytes=cache_size,
        format=format_,
        on_progress=say,
    )
    text = (
        f"Pulled version {pulled.version} of {pulled.model} into {folder}: "
        f"{count(pulled.num_files, 'file')} fetched, {pulled.num_unchanged} unchanged, "
        f"{byte_size(pulled.size_bytes)} in all."
    )
    report({**vars(pulled), "folder": str(pulled.folder)}, text)


@app.command("edit")
def edit(
    reference: ReferenceArgument,
    description: Annotated[
        str | None, typer.Option("--description", help="Description of the model.")
    ] = None,
    notes: Annotated[str | None, typer.Option("--notes", help="Notes of a version.")] = None,
    rename: Annotated[
        str | None, typer.Option("--rename", metavar="NAME", help="New name of the model.")
    ] = None,
) -> None:
    """Change the description or name of a model (NAME), or the notes of a version (NAME:3)."""
    is_version = ":" in reference or "@" in reference
    given = {"notes": notes} if is_version else {"description": description, "name": rename}
    body = {key: value for key, value in given.items() if value is not None}
    if not body:
        raise usage_error(
            "Nothing to change.", "use --notes for a version, --description or --rename for a model"
        )
    if is_version:
        found = server().model_version(reference)
        path = f"/models/{found['model']}/versions/{found['number']}"
    else:
        path = f"/models/{reference}"
    changed = server().patch(path, body)
    report(changed, f"Changed {reference}.")


@app.command("delete")
def delete(
    reference: Annotated[
        str, typer.Argument(metavar="MODEL", help="NAME:3 for a version, NAME for all of it.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Also what an alias names; the alias is removed.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Delete a version, or a model with all its versions.

    Its checkpoint or outputs stay where they are, under the policy of their experiment again. What an
    alias names is only deleted with --force.
    """
    if "@" in reference:
        raise usage_error(
            f"{reference} is an alias.",
            "delete a version by its number; `muster model alias NAME ALIAS --remove` removes an alias",
        )
    if not yes and not wants_json():
        what = reference if ":" in reference else f"{reference} with all its versions"
        typer.confirm(f"Delete {what}?", abort=True, err=True)
    server().delete_model(reference, force=force)
    report({"model": reference, "deleted": True}, f"Deleted {reference}.")


def _report_version(version: schema.ModelVersionOut, *, is_new: bool) -> None:
    if printed_json(version):
        return
    name = f"{version['model']}:{version['number']}"
    if is_new:
        what = f"{count(version['num_files'], 'file')}, {byte_size(version['size_bytes'])}"
        say(f"Registered {name}: {what}." if version["state"] == "ready" else f"Registered {name}.")
    else:
        say(f"These files are {name} already.")
    for file in version["files"]:
        if file["warning"]:
            say(f"{printable(file['path'])}: {file['warning']}")


def _more(tags: list[str] | None, notes: str, project: str | None) -> dict[str, Any]:
    given = {"tags": _pairs(tags or []), "notes": notes, "project": project}
    return {key: value for key, value in given.items() if value}


def _pairs(given: list[str], *, of_metrics: bool = False) -> dict[str, str]:
    found = {}
    for text in given:
        # Only the value of a metric, a number, cannot hold the sign: its name may.
        key, sign, value = text.rpartition("=") if of_metrics else text.partition("=")
        if not sign or not key:
            raise usage_error(f"{text!r} is no pair.", "write key=value")
        found[key] = value
    return found


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise usage_error(f"{name} is {text!r}.", "write a number, such as 0.93") from None

"""Commands about experiments: submit, validate, list, show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from ..absent import server
from ..maintenance_notes import note_maintenance
from ..output import (
    Cell,
    Markup,
    age,
    between,
    console,
    escape,
    number,
    print_fields,
    print_json,
    print_rows,
    printed_json,
    say,
    styled_state,
    table,
    wants_json,
)
from ..sending import (
    CodeOption,
    DocumentArgument,
    ReuseOption,
    SetOption,
    code_of_script,
    read_document,
    say_notices,
    send_code,
    submit_with_code,
)
from ..tracked import show_tracked_runs, tracked_runs
from ..trials import ExperimentOrTrialArgument, address, find_trial

if TYPE_CHECKING:
    from muster.client import Client, schema

    from ..follow import ShownTrial

ExperimentState = Literal[
    "QUEUED", "RUNNING", "PAUSED", "STOPPING", "COMPLETED", "CANCELED", "FAILED"
]
StreamName = Literal["stdout", "stderr"]


def submit(
    file: DocumentArgument,
    set_: SetOption = None,
    code: CodeOption = None,
    reuse: ReuseOption = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show progress until it has ended.")
    ] = False,
) -> None:
    """Submit an experiment: a document, or a Slurm batch script."""
    document = read_document(file)
    overrides = [*(set_ or ()), *(("reuse=true",) if reuse else ())]
    client = server()
    if document.startswith("#!"):
        # Not above: the reading of batch scripts takes a fifth of the start of any command here.
        from ..sbatch.reading import document_of

        script = code_of_script(file, code, overrides)
        document = document_of(client, file, document, code=script, quiet=wants_json())
        file = "-"
    experiment = submit_with_code(client, file, document, overrides, code)
    url = f"{client.target.url}/experiments/{experiment['id']}"
    if not follow:
        if not printed_json(experiment):
            print(experiment["id"])
            say(f"Submitted experiment {experiment['id']} ({experiment['name']}): {url}")
            say_notices(experiment)
            note_maintenance(client, experiment["id"])
        return
    say(f"Submitted experiment {experiment['id']} ({experiment['name']}): {url}")
    say_notices(experiment)
    note_maintenance(client, experiment["id"])
    from ..follow import follow_to_the_end

    follow_to_the_end(client, experiment["id"])


def validate(file: DocumentArgument, set_: SetOption = None, code: CodeOption = None) -> None:
    """Check an experiment document and show what would run, without submitting it."""
    document = read_document(file)
    overrides = list(set_ or [])
    named = file
    client = server()
    if document.startswith("#!"):
        # Not above: the reading of batch scripts takes a fifth of the start of any command here.
        from ..sbatch.reading import document_of

        script = code_of_script(file, code, overrides)
        document = document_of(client, file, document, code=script, quiet=wants_json())
        file = "-"
    sent = send_code(client, file, document, overrides, code, quiet=wants_json())
    preview = client.preview(document, overrides=overrides, blob_sha256=sent.sha256)
    needs = ""
    config = preview["config"] if preview["valid"] else None
    if config is not None and config["trainer"] is not None and not wants_json():
        from ..estimate import needs_of

        needs = needs_of(client, document, overrides, sent.sha256)
    if wants_json():
        print_json(preview)
    elif preview["valid"]:
        _print_preview(preview)
        if needs:
            say(needs)
    else:
        say(f"error: {named} is not valid.")
        print_fields(preview["errors"])
    if not preview["valid"]:
        raise typer.Exit(1)


def list_(
    state: Annotated[
        ExperimentState | None, typer.Option(case_sensitive=False, help="Select by state.")
    ] = None,
    project: Annotated[str | None, typer.Option(help="Select by project.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=VALUE]", help="Select by label; repeatable."),
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Select by owner.")] = None,
    query: Annotated[
        str | None, typer.Option("-q", "--query", help="Select by part of the name.")
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="Include archived experiments.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, help="Maximum number of experiments, newest first.")
    ] = 20,
) -> None:
    """List experiments, newest first."""
    found = list(
        server().pages(
            "/experiments",
            limit=limit,
            state=state,
            project=project,
            label=label,
            owner=owner,
            q=query,
            archived="include" if archived else None,
        )
    )
    columns: dict[str, Cell[schema.ExperimentOut]] = {
        ">id": "id",
        "name": "name",
        "state": lambda row: Markup(styled_state(shown_state(row)) + _quiet_text(row)),
        ">trials": "num_trials",
        ">slots": slots_text,
        "search": "searcher",
        "metric": _headline,
        ">best": _best,
        "created": ("created_at", age),
    }
    print_rows(found, columns, empty="No experiments.")


def show(of: ExperimentOrTrialArgument) -> None:
    """Show an experiment and its trials, or one of them with its attempts."""
    from muster.client.methods.experiments import FIGURES_PAGE

    client = server()
    if of.no is not None:
        trial = client.get(f"/trials/{find_trial(of)['id']}")
        runs = tracked_runs(trial["id"])
        source = "" if wants_json() else _source_text(client, trial["id"])
        if not printed_json({**trial, "tracked_runs": runs}):
            _show_trial(trial)
            _show_source(source)
            show_tracked_runs(runs)
        return
    detail = client.experiment(of.experiment)
    trials = cast("list[ShownTrial]", client.trials(of.experiment, limit=1000))
    if len(trials) <= FIGURES_PAGE:
        figures = client.figures(of.experiment)
        for one in trials:
            one["figures"] = figures.get(one["id"], {})
    is_single = len(trials) == 1
    runs = tracked_runs(trials[0]["id"]) if is_single else []
    source = _source_text(client, trials[0]["id"]) if is_single and not wants_json() else ""
    if not printed_json({**detail, "trials": trials}):
        _show_experiment(detail, trials)
        _show_source(source)
        show_tracked_runs(runs)


def _source_text(client: Client, trial_id: int) -> str:
    """Return of how many steps the figures of communication are, where that is not all of them."""
    return str(client.get(f"/trials/{trial_id}/performance")["source"] or "")


def _show_source(source: str) -> None:
    if source:
        console().print(escape(source), highlight=False)


def _show_experiment(detail: schema.ExperimentDetail, trials: list[ShownTrial]) -> None:
    from ..follow import communication_text, headline_text, speed_text

    has_figures = all("figures" in trial for trial in trials)
    speeds = ("speed", "comm") if has_figures else ()
    out = console()
    out.print(
        f"[bold]{detail['id']} {escape(detail['name'])}[/bold]  "
        f"{styled_state(shown_state(detail))}  {slots_text(detail)} {detail['slot_type']} slots"
    )
    if detail["reason"] and not (detail.get("is_doubtful", False) and detail["notices"]):
        out.print(escape(detail["reason"]))
    for notice in detail.get("notices", ()):
        out.print(f"[yellow]{escape(notice['text'])}[/yellow]", highlight=False)
    shown = table(
        "trial", "state", "step", "epoch", "metric", *speeds, "restarts", "hyperparameters",
        right=("trial", "step", "epoch", "speed", "comm", "restarts"),
    )  # fmt: skip
    for trial in trials:
        shown.add_row(
            address(trial),
            styled_state(trial["state"]) + (" (reused)" if trial.get("is_reused") else ""),
            str(trial["step"]),
            number(trial["epoch"], 3),
            escape(headline_text(trial)),
            *(
                (speed_text(trial["figures"]), communication_text(trial["figures"]))
                if has_figures
                else ()
            ),
            str(trial["num_restarts"]),
            escape(" ".join(f"{k}={number(v)}" for k, v in trial["hparams"].items())),
        )
    out.print(shown)
    for trial in trials:
        if reason := _reason_text(trial):
            out.print(f"trial {address(trial)}: {reason}")


def _reason_text(trial: schema.TrialOut) -> str:
    """Return why a trial waits or ended, as markup; empty if there is nothing to explain."""
    waits = trial["state"] in ("QUEUED", "RETRY_WAIT")
    reason = (trial["pending_reason"] if waits else "") or trial["reason"]
    if not reason or trial["state"] in ("COMPLETED", "STOPPED_EARLY"):
        return ""
    is_never = trial.get("is_impossible", False)
    never = "[yellow]cannot start with the present nodes.[/yellow] " if is_never else ""
    return f"{never}{escape(reason)}"


def _reused_text(trial: schema.TrialOut) -> str:
    source = trial["reused_from"]
    named = f"trial {source['experiment_id']}.{source['no']}" if source else "another trial"
    return f"It takes the result of {named}, which had the same inputs; it has not run."


def _show_trial(trial: schema.TrialDetail) -> None:
    out = console()
    out.print(
        f"[bold]{address(trial)} {escape(trial['experiment_name'])}[/bold]  "
        f"{styled_state(trial['state'])}  {trial['num_slots_held'] or trial['num_slots']} slots"
    )
    if reason := _reason_text(trial):
        out.print(reason)
    if trial.get("is_reused", False):  # servers of before do not say so
        out.print(_reused_text(trial), highlight=False)
    for notice in trial["notices"]:
        out.print(f"[yellow]{escape(notice['text'])}[/yellow]", highlight=False)
    if trial["hparams"]:
        values = "  ".join(f"{k}={number(v)}" for k, v in trial["hparams"].items())
        out.print(escape(values), highlight=False)
    attempts = table(
        "attempt", "state", "workers", "nodes", "from step", "started", "ran", "reason",
        right=("attempt", "workers", "from step"),
    )  # fmt: skip
    for attempt in reversed(trial["attempts"]):
        attempts.add_row(
            str(attempt["no"]),
            styled_state(attempt["state"]),
            str(attempt["world_size"]),
            escape(", ".join(attempt["nodes"])),
            str(attempt["resume_step"]),
            "–" if attempt["started_at"] is None else f"{age(attempt['started_at'])} ago",
            between(attempt["started_at"], attempt["ended_at"]),
            escape(attempt["reason"]),
        )
    if trial["attempts"]:
        out.print(attempts)
    members = table("member", "state", "node", "address", "exit")
    for member in trial.get("members", []):  # servers of before know none
        members.add_row(
            escape(member["name"]),
            styled_state(member["state"]),
            escape(member["node_name"]),
            member["address"],
            escape("; ".join(filter(None, (member["exit"], member["message"])))),
        )
    if trial.get("members"):
        out.print(members)
    metrics = table("metric", "last", "min", "max", "step", right=("last", "min", "max", "step"))
    for name, found in sorted(trial["summary"].items()):
        values_of = (number(found[part]) for part in ("last", "min", "max"))
        metrics.add_row(escape(name), *values_of, str(found["step"]))
    if trial["summary"]:
        out.print(metrics)
    if any(isinstance(given, dict) for given in trial["config"].get("data", {}).values()):
        environment = server().get(f"/trials/{trial['id']}/reproduction")["environment"]
        data = environment.get("data", {}) if environment is not None else {}
        for name, read in data.items():
            version = f" version {read['version']}" if read["version"] else ""
            digest = read["digest"] or f"no digest, because {read['problem']}"
            out.print(escape(f"data {name}{version}: {digest}"), highlight=False, soft_wrap=True)


# ---------------------------------------------------------------- helpers


def shown_state(experiment: schema.ExperimentOut) -> str:
    """Return its state; WAITING while none of its trials runs, although some have, and DOUBTFUL for
    COMPLETED if something speaks against it."""
    if experiment.get("is_doubtful", False):  # servers of before do not say so
        return "DOUBTFUL"
    runs = {"STARTING", "RUNNING", "STOPPING"} & experiment["num_trials_by_state"].keys()
    return "WAITING" if experiment["state"] == "RUNNING" and not runs else experiment["state"]


def _headline(experiment: schema.ExperimentOut) -> str:
    headline = experiment.get("headline")
    return f"{headline['name']} {number(headline['last'])}" if headline else "–"


def _best(experiment: schema.ExperimentOut) -> str:
    headline = experiment.get("headline")
    return number(headline["best"]) if headline else "–"


def _quiet_text(experiment: schema.ExperimentOut) -> str:
    """Return what stands after the state of an experiment that prints nothing and makes no step."""
    is_quiet = experiment.get("is_quiet", False)  # servers of before do not say so
    return " [yellow]quiet[/yellow]" if is_quiet else ""


def slots_text(experiment: schema.ExperimentOut) -> str:
    """Return the slots of a trial; those it holds while it runs ("1 of 4"), and of a search those
    of all its trials."""
    asked, held = experiment["slots_per_trial"], experiment["num_slots_held"]
    if experiment["state"] not in ("RUNNING", "STOPPING") or held == asked:
        return str(asked)
    return f"{held} of {asked}" if experiment["only_trial_id"] else f"{held} ({asked} each)"


def _fit_text(preview: schema.PreviewOut) -> str:
    if preview["fits_now"]:
        return "Fits now."
    reason = escape(preview["fit_reason"])
    if preview.get("is_impossible", False):  # servers of before do not say so
        return f"[yellow]Cannot start with the present nodes.[/yellow] {reason}"
    return f"Will be queued. {reason}"


def _cost_text(cost: schema.SearchCostOut) -> str:
    share = 1 - cost["total_units"] / cost["full_units"]
    text = f"Expected: {cost['total_units']:,} {cost['unit']} of training"
    text += f", {share:.0%} less than in full" if share > 0 else ""
    hours, duration_s = cost["slot_hours"], cost["duration_s"]
    if hours is None or duration_s is None:
        return f"{text}; say search.unit_s to see slot-hours and cost."
    text += f"; {number(hours)} slot-hours ({cost['unit_s_from']})"
    if cost["cost"] is not None:
        text += f", {number(cost['cost'])} {cost['currency']}"
    if cost["within_budget"] is False:
        text += ": more than its budget"
    return f"{text}; about {number(duration_s / 3600)} h if all of it runs at once as asked."


def _print_preview(preview: schema.PreviewOut) -> None:
    import shlex

    out = console()
    count = preview["num_trials"]
    bound = "at most " if preview["num_trials_is_upper_bound"] else ""
    out.print(
        f"Valid: {bound}{count} trial{'' if count == 1 else 's'}."
        if count is not None
        else "Valid."
    )
    if preview.get("warnings"):
        say("warning:")
        print_fields(preview["warnings"])
    for notice in preview.get("notices", ()):
        out.print(escape(notice["text"]), highlight=False)
    for no, sentence in enumerate(preview.get("guards", ()), 1):
        out.print(f"Guard {no}: {escape(sentence)}", highlight=False)
    if preview["concurrent"] is not None and count != 1:
        out.print(f"Parallel trials: {preview['concurrent']} ({preview['concurrent_from']}).")
    for planned in preview["sampled_trials"]:
        if planned["hparams"]:
            values = "  ".join(f"{k}={number(v)}" for k, v in planned["hparams"].items())
            out.print(f"  {escape(values)}")
    brackets = {rung["bracket"] for rung in preview["rungs"]}
    for rung in preview["rungs"]:
        of = f"bracket {rung['bracket'] + 1}, " if len(brackets) > 1 else ""
        expected = rung["expected_trials"]
        out.print(
            f"  {of}rung at {rung['units']}: {expected} trial{'' if expected == 1 else 's'} "
            f"expected, {rung['max_trials']} at most"
        )
    if preview.get("perturbed"):
        out.print(f"  clones change {escape(', '.join(preview['perturbed']))}", highlight=False)
    if preview.get("copied"):
        out.print(f"  clones inherit {escape(', '.join(preview['copied']))}", highlight=False)
    if (cost := preview.get("search_cost")) is not None:
        out.print(_cost_text(cost))
    if after := (preview["config"] or {})["after"]:
        numbers = ", ".join(str(entry["experiment"]) for entry in after)
        out.print(f"Starts after experiment {numbers}; its place then:")
    out.print(_fit_text(preview))
    for node in preview["plan"]:
        out.print(
            f"  {escape(node['node_name'])} ({node['num_slots']} slots): "
            f"{escape(shlex.join(node['command']))}"
        )

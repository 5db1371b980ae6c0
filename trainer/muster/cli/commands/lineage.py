"""Commands that continue earlier work: continue, fork."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import typer

from muster.code.folder import CodeFolder

from ..absent import server
from ..output import printed_json, report, say, usage_error, wants_json
from ..selecting import SelectionOptions, selecting
from ..sending import CodeOption, SentCode, SetOption, read_document, send_code, upload_folder
from ..trials import ExperimentArgument, TrialReference, parse_trial
from .operations import operate


@selecting(trials=True)
def continue_(
    asked: SelectionOptions,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Train this many epochs in all.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Train this many steps in all.")] = None,
    set_: SetOption = None,
) -> None:
    """Continue experiments that have ended, or trials of one, from their newest checkpoints."""
    if epochs is None and steps is None and not set_ and not asked.trials:
        operate("continue", asked)
        return
    number = _one_experiment(asked)
    if epochs is not None and steps is not None:
        raise usage_error("Give either --epochs or --steps.")
    body: dict[str, Any] = {"overrides": list(set_ or ())}
    if epochs is not None or steps is not None:
        body["length"] = {"epochs": epochs} if epochs is not None else {"steps": steps}
    if asked.trials:
        body["trials"] = [trial.no for trial in asked.trials]
    detail = server().post_once(f"/experiments/{number}:continue", body)
    report(detail, f"Experiment {number} continues ({detail['state']}).")


def _one_experiment(asked: SelectionOptions) -> int:
    """Return the number of the only experiment that is named. Raises CommandFailure."""
    if not asked.trials:
        return asked.only(
            "Changes go with the number of one experiment.",
            "continue several as they were, or one by one",
        )
    numbers = {trial.experiment for trial in asked.trials}
    if len(numbers) > 1 or asked.dry_run:
        raise usage_error("Trials of one experiment are continued at a time, without --dry-run.")
    return numbers.pop()


def fork(
    experiment: ExperimentArgument,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]", help="Document to use; by default that of the experiment."
        ),
    ] = None,
    set_: SetOption = None,
    code: CodeOption = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="ID|latest|best", help="Checkpoint to start from; none by default."),
    ] = None,
    from_trial: Annotated[
        TrialReference | None,
        typer.Option(
            "--from-trial",
            metavar="TRIAL",
            parser=parse_trial,
            help="Trial of the checkpoint (36.2); the best one by default.",
        ),
    ] = None,
    load: Annotated[
        Literal["all", "weights"],
        typer.Option(help="Part of the checkpoint to use: everything, or only the weights."),
    ] = "all",
) -> None:
    """Create a new experiment from an existing one, with changes."""
    overrides = list(set_ or ())
    body: dict[str, Any] = {}
    section = _from(checkpoint, from_trial, load)
    client = server()
    if section is not None:
        trial = {"trial": str(from_trial)} if from_trial else {}
        body["from"] = trial | section
    if file is not None:
        body["document"] = read_document(file)
        sent = send_code(client, file, body["document"], overrides, code, quiet=wants_json())
    elif code is not None:
        overrides.append(f"code.path={json.dumps(str(code))}")
        sent = upload_folder(client, CodeFolder(path=code), quiet=wants_json())
    else:
        sent = SentCode()
    if sent.sha256 is not None:
        body |= {"blob_sha256": sent.sha256, "left_out": sent.left_out}
    if sent.version is not None:
        body["code_version"] = sent.version.body()
    body["overrides"] = overrides
    made = client.post_once(f"/experiments/{experiment}:fork", body)
    url = f"{client.target.url}/experiments/{made['id']}"
    if printed_json(made):
        return
    print(made["id"])
    step = made["parent"] and made["parent"]["step"]
    start = f", from step {step}" if step is not None else ""
    say(f"Forked experiment {experiment} as {made['id']} ({made['name']}){start}: {url}")


def _from(
    checkpoint: str | None, from_trial: TrialReference | None, load: str
) -> dict[str, Any] | None:
    """Return the section `from` of a fork, without the trial. Raises CommandFailure."""
    if checkpoint is None and from_trial is None:
        if load != "all":
            raise usage_error("--load needs --checkpoint.")
        return None
    if checkpoint is not None and checkpoint.isdecimal():
        if from_trial is not None:
            raise usage_error(
                "A checkpoint's number already determines its trial; leave out --from-trial."
            )
        return {"checkpoint": int(checkpoint), "load": load}
    if checkpoint not in (None, "latest", "best"):
        raise usage_error(f"{checkpoint!r} is not a checkpoint.", "give its number, latest or best")
    return {"pick": checkpoint or "latest", "load": load}

"""The commands of people about experiments, budgets, projects and pools, on the real application."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from sqlalchemy import select, update

from muster.cli.output import CommandFailure
from muster.client import Client, ClientError, Target
from muster_server.db.models import AllocationRow, ExperimentRow, TrialRow
from muster_server.domain.states import TrialState
from muster_server.services.logs import storage
from muster_server.services.metrics import compaction, ingest
from support.data import NOW, add_attempt, add_experiment, add_trial, metrics_record

API = "/api/v1"
TRAINER = "name: digits\ntrainer: {model: mlp}\n"


@pytest.fixture
def submit(member_client):
    def make(document=TRAINER):
        answer = member_client.post(f"{API}/experiments", json={"document": document})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    return make


def finish(database, *ids, state="COMPLETED"):
    with database.transaction() as session:
        session.execute(update(ExperimentRow).where(ExperimentRow.id.in_(ids)).values(state=state))
        session.execute(update(TrialRow).where(TrialRow.experiment_id.in_(ids)).values(state=state))
        session.execute(update(AllocationRow).values(observed="CLEANED"))


def desired(database):
    with database.read() as session:
        return dict(session.execute(select(ExperimentRow.id, ExperimentRow.desired)).all())


def ok(result):
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_one_is_paused_resumed_stopped_and_killed_by_its_number(muster, submit, database):
    experiment_id = submit()
    for action, wanted in (
        ("pause", "pause"), ("resume", "run"), ("stop", "stop"), ("kill", "kill"),
    ):  # fmt: skip
        assert f"Experiment {experiment_id}" in ok(muster(action, str(experiment_id)))
        assert desired(database) == {experiment_id: wanted}


def test_a_filter_asks_first_and_touches_nothing_else(muster, submit, database):
    mine = [submit(TRAINER + "labels: {team: a}") for _ in range(2)]
    other = submit()
    refused = muster("stop", "--label", "team=a")
    assert isinstance(refused.exception, CommandFailure)
    assert "add --yes" in refused.exception.hint
    assert set(desired(database).values()) == {"run"}
    ok(muster("stop", "--label", "team=a", "--yes"))
    assert desired(database) == {mine[0]: "stop", mine[1]: "stop", other: "run"}


def test_a_dry_run_shows_and_changes_nothing(muster, submit, database):
    experiment_id = submit()
    preview = json.loads(ok(muster("kill", "--state", "queued", "--dry-run", "--json")))
    assert [i["id"] for i in preview["items"]] == [experiment_id]
    assert "digits" in ok(muster("kill", "--state", "QUEUED", "--dry-run"))
    assert desired(database) == {experiment_id: "run"}


def test_a_refusal_is_exit_code_1_and_the_others_are_done(muster, submit, database):
    running, ended = submit(), submit()
    finish(database, ended)
    result = muster("pause", str(running), str(ended), "--yes", "--json")
    assert result.exit_code == 1
    outcomes = {i["id"]: i["outcome"] for i in json.loads(result.stdout)["items"]}
    assert outcomes == {running: "changes", ended: "refused"}
    assert desired(database)[running] == "pause"


def test_one_trial_is_killed(muster, submit, database):
    experiment_id = submit()
    assert ok(muster("kill", f"{experiment_id}.1")) == f"Trial {experiment_id}.1: QUEUED\n"
    with database.read() as session:
        assert session.scalars(select(TrialRow.desired)).all() == ["kill"]
    assert desired(database) == {experiment_id: "run"}


def test_archived_ones_are_listed_when_asked_for(muster, submit, database):
    experiment_id = submit(TRAINER + "labels: {team: a}")
    finish(database, experiment_id)
    ok(muster("archive", str(experiment_id)))
    assert json.loads(ok(muster("list", "--json"))) == []
    listed = json.loads(ok(muster("list", "--archived", "--label", "team", "--json")))
    assert [e["id"] for e in listed] == [experiment_id]
    ok(muster("unarchive", str(experiment_id)))
    owned = json.loads(ok(muster("list", "--owner", "member", "--json")))
    assert [e["id"] for e in owned] == [experiment_id]


def test_the_log_of_an_experiment_says_which_trial_wrote_a_line(muster, database):
    with database.transaction() as session:
        experiment = add_experiment(session)
        for no in (1, 2):
            (allocation,) = add_attempt(session, add_trial(session, experiment, no=no))
            storage.append(
                session,
                allocation=allocation,
                local_rank=0,
                stream="stdout",
                offset=0,
                data=b"hello\n",
                now=NOW,
            )
    both = ok(muster("logs", str(experiment.id)))
    assert both.splitlines() == [
        f"[{experiment.id}.1 rank 0] hello",
        f"[{experiment.id}.2 rank 0] hello",
    ]
    assert ok(muster("logs", f"{experiment.id}.2")) == "[rank 0] hello\n"


def test_the_log_of_a_failed_trial_is_its_ranks_without_the_launchers_summary(muster, database):
    with database.transaction() as session:
        experiment = add_experiment(session)
        trial = add_trial(session, experiment)
        trial.state = TrialState.FAILED
        (allocation,) = add_attempt(session, trial)
        for rank, text in ((0, b"ValueError: bad\n"), (-1, b"Root Cause:\n===\n")):
            storage.append(
                session,
                allocation=allocation,
                local_rank=rank,
                stream="stderr",
                offset=0,
                data=text,
                now=NOW,
            )
    found = muster("logs", str(experiment.id), "--tail", "5")
    assert found.stdout == "[rank 0] ValueError: bad\n"
    assert found.stderr == "2 lines of the launcher left out: add `--rank -1` to see them alone.\n"
    assert "Root Cause:" in ok(muster("logs", str(experiment.id), "--rank", "-1"))


def test_deleting_says_what_it_frees_and_always_asks(muster, submit, database):
    experiment_id = submit()
    finish(database, experiment_id)
    assert "Frees 1 trial," in ok(muster("delete", str(experiment_id), "--dry-run"))
    assert isinstance(muster("delete", str(experiment_id)).exception, CommandFailure)
    assert desired(database) != {}
    ok(muster("delete", str(experiment_id), "--yes"))
    assert json.loads(ok(muster("list", "--json"))) == []
    assert "No files are waiting" in ok(muster("deletions"))


def test_labels_are_set_and_removed(muster, submit, member_client):
    experiment_id = submit(TRAINER + "labels: {team: a, old: x}")
    ok(muster("label", str(experiment_id), "--set", "phase=2", "--remove", "old"))
    detail = member_client.get(f"{API}/experiments/{experiment_id}").json()
    assert detail["labels"] == {"team": "a", "phase": "2"}


def test_an_ended_experiment_goes_on_longer(muster, submit, database, member_client):
    experiment_id = submit("name: x\ntrainer: {epochs: 3}\n")
    finish(database, experiment_id)
    detail = json.loads(ok(muster("continue", str(experiment_id), "--epochs", "6", "--json")))
    assert (detail["state"], detail["config"]["trainer"]["epochs"]) == ("QUEUED", 6)
    finish(database, experiment_id, state="FAILED")
    ok(muster("continue", "--state", "FAILED", "--yes"))
    detail = member_client.get(f"{API}/experiments/{experiment_id}").json()
    assert (detail["state"], detail["num_continued"]) == ("QUEUED", 2)


def test_a_fork_changes_what_is_said(muster, submit):
    source = submit()
    arguments = ("fork", str(source), "--set", "name=again", "--set", "trainer.lr=0.5", "--json")
    made = json.loads(ok(muster(*arguments)))
    assert (made["name"], made["config"]["trainer"]["lr"]) == ("again", 0.5)
    assert made["parent"]["experiment_id"] == source
    refused = muster("fork", str(source), "--from-trial", f"{source}.9")
    assert isinstance(refused.exception, ClientError)
    message = refused.exception.fields[0]["message"]
    assert f"names trial {source}.9, which does not exist" in message
    refused = muster("fork", str(source), "--checkpoint", "best")
    assert isinstance(refused.exception, ClientError)
    assert refused.exception.fields[0]["path"] == "from.experiment"


def test_a_budget_is_shown_set_and_taken_away(muster, submit):
    experiment_id = str(submit())
    assert "No budget." in ok(muster("budget", experiment_id))
    shown = ok(muster("budget", experiment_id, "--slot-hours", "10", "--alert-at", "0.5"))
    assert "slot hours" in shown
    found = json.loads(ok(muster("budget", experiment_id, "--json")))
    assert found["budget"]["limits"][0]["limit"] == 10
    assert json.loads(ok(muster("budget", experiment_id, "--none", "--json")))["budget"] is None


def test_projects_and_pools_are_for_administrators(muster, submit):
    submit("name: x\ntrainer: {}\nproject: vision\n")
    ok(muster("pool", "price", "a100", "2.5", as_="admin"))
    assert "2.5 USD" in ok(muster("pool", "list"))
    arguments = (
        "project",
        "set",
        "vision",
        "--weight",
        "2",
        "--quota",
        "a100/cuda=8",
        "--cost",
        "50",
    )
    assert "0 of 8 slots" in ok(muster(*arguments, as_="admin"))
    project = json.loads(ok(muster("project", "show", "vision", "--json")))
    assert (project["weight"], project["budget"]["limits"][0]["limit"]) == (2, 50)
    assert "vision" in ok(muster("project", "list"))
    project = json.loads(
        ok(muster("project", "set", "vision", "--no-budget", "--json", as_="admin"))
    )
    assert project["budget"] is None
    set_days = ("project", "set", "vision", "--log-days", "30", "--metric-days", "365")
    assert "Keeps logs 30 days and long metrics 365 days" in ok(muster(*set_days, as_="admin"))
    shown = ok(muster("project", "set", "vision", "--log-days", "server", as_="admin"))
    assert "Keeps long metrics 365 days after" in shown
    assert "1 project" in ok(muster("retention", as_="admin"))
    assert muster(*arguments).exception.code == "auth.forbidden"
    ok(muster("project", "create", "audio", as_="admin"))
    ok(muster("project", "delete", "audio", "--yes", as_="admin"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["stop"], "Which experiments?"),
        (["stop", "1.2", "3"], "Trials cannot be combined"),
        (["kill", "1.2", "--label", "a"], "Trials cannot be combined"),
        (["continue", "1.2", "2.1"], "Trials of one experiment"),
        (["stop", "1", "--label", "a"], "exclude each other"),
        (["label", "1"], "Give a label"),
        (["label", "1", "--set", "x"], "is not a label"),
        (["continue", "1", "2", "--epochs", "3"], "one experiment"),
        (["continue", "1", "--epochs", "3", "--steps", "3"], "either --epochs or --steps"),
        (["fork", "1", "--checkpoint", "worst"], "is not a checkpoint"),
        (["fork", "1", "--load", "weights"], "needs --checkpoint"),
        (["budget", "1", "--alert-at", "0.5"], "goes with a limit"),
        (["budget", "1", "--cost", "5", "--none"], "given and taken away"),
        (["project", "set", "x"], "Nothing to change"),
        (["project", "set", "x", "--quota", "8"], "is no quota"),
        (["project", "set", "x", "--log-days", "never"], "is no number of days"),
    ],
)
def test_wrong_use_is_said_before_anything_is_asked_of_the_server(muster, arguments, words):
    result = muster(*arguments)
    assert isinstance(result.exception, CommandFailure), result.output
    assert result.exception.exit_code == 2
    assert words in result.exception.message


def test_a_line_whose_end_comes_later_is_followed_once(member_client, database):
    with database.transaction() as session:
        trial = add_trial(session, add_experiment(session))
        trial.state = TrialState.RUNNING
        (allocation,) = add_attempt(session, trial)
        trial_id, allocation_id = trial.id, allocation.id
    sent = [b"begun", b", ended\nlast ", b"without an end"]

    def write(number):
        with database.transaction() as session:
            storage.append(
                session,
                allocation=session.get_one(AllocationRow, allocation_id),
                local_rank=0,
                stream="stdout",
                offset=len(b"".join(sent[:number])),
                data=sent[number],
                now=NOW,
            )

    client = Client(Target("http://localhost:8470", "unused", "the test"))
    client._http.close()
    client._http = member_client
    write(0)
    assert [line["text"] for line in client.log_lines(trial_id)] == ["begun"]
    said, rounds = [], 0
    for batch in client.log_batches(trial_id, follow=True):
        if not isinstance(batch, float):
            said += [line["text"] for line in batch]
            continue
        rounds += 1
        assert rounds < 10
        if rounds in (1, 2):
            write(rounds)
        elif rounds == 3:
            with database.transaction() as session:
                session.execute(update(TrialRow).values(state="COMPLETED", logs_complete=True))
    assert said == ["begun, ended", "last without an end"]


def test_what_an_age_would_free_is_said_before_it_is_set(muster, database):
    with database.transaction() as session:
        trial = add_trial(session, add_experiment(session))
        trial.state, trial.ended_at = "COMPLETED", NOW - dt.timedelta(days=400)
        (allocation,) = add_attempt(session, trial)
        storage.append(
            session, allocation=allocation, local_rank=0, stream="stdout", offset=0,
            data=b"a line\n" * 100, now=NOW,
        )  # fmt: skip
        ingest.ingest(
            session, allocation=allocation, seq=1, at=NOW,
            record=metrics_record({"loss": [(step, 1.0 / step) for step in range(1, 5_000)]}),
        )  # fmt: skip
        trial_id = trial.id
    compaction.compact_trial(database, trial_id, NOW)
    found = json.loads(ok(muster("retention", "--json", as_="admin")))
    assert found["is_set"]
    assert found["metrics"]["days"] is found["logs"]["days"] is None
    found = json.loads(
        ok(muster("retention", "--metric-days", "30", "--log-days", "30", "--json", as_="admin"))
    )
    assert (found["metrics"]["num_trials"], found["logs"]["num_trials"]) == (1, 1)
    assert found["metrics"]["num_points"] == 4_999
    assert 0 < found["metrics"]["freed_bytes"] < found["metrics"]["size_bytes"]
    assert found["logs"]["size_bytes"] == 700
    shown = ok(muster("retention", "--metric-days", "30", as_="admin"))
    assert "30 days" in shown
    assert "A question only" in shown
    assert muster("retention", "--metric-days", "0", as_="admin").exit_code == 2
    forecast = ok(muster("retention", "--forecast", as_="admin"))
    assert "system metrics" in forecast
    says = "has not grown" if database.is_sqlite else "does not see the disk"
    assert says in forecast, "what there is was written in the past"
    found = json.loads(ok(muster("retention", "--forecast", "--json", as_="admin")))
    assert found["days_left"] is None


@pytest.fixture
def search(database):
    """An experiment with three trials; the second has measured a loss."""
    with database.transaction() as session:
        for _ in range(
            2
        ):  # so that no trial has the number of an experiment or the other way round
            add_trial(session, add_experiment(session))
        experiment = add_experiment(session)
        for no in (1, 2, 3):
            trial = add_trial(session, experiment, no=no)
            (allocation,) = add_attempt(session, trial)
            if no == 2:
                ingest.ingest(
                    session, allocation=allocation, seq=1, at=NOW,
                    record=metrics_record({"train/loss": [(1, 0.5)]}),
                )  # fmt: skip
        return experiment.id


@pytest.mark.parametrize(
    "command",
    [
        ("performance",), ("progress",), ("stacks", "--last"), ("profile", "--last"), ("diagnose",),
        ("checkpoint", "list"), ("plan", "--trial"), ("search", "promote"), ("search", "tell"),
    ],
)  # fmt: skip
def test_every_command_about_a_trial_names_it_by_its_experiment(muster, search, command):
    name, *options = command if command[-1].startswith("-") else (*command,)
    words = [name, *options] if command[0] in ("checkpoint", "plan", "search") else [name]
    rest = [] if words == [name, *options] else options
    several = muster(*words, str(search), *rest).exception
    assert isinstance(several, CommandFailure)
    assert several.message == f"Experiment {search} has 3 trials."
    assert several.hint == f"name one: {search}.1 to {search}.3"
    missing = muster(*words, f"{search}.4", *rest).exception
    if command != ("search", "tell"):
        assert isinstance(missing, CommandFailure)
        assert missing.message == f"Experiment {search} has no trial 4."
        assert missing.hint == f"{search}.1 to {search}.3"
    wrong = muster(*words, "second", *rest).exception
    assert isinstance(wrong, CommandFailure)
    assert wrong.exit_code == 2
    assert "names neither an experiment nor a trial of one (36.2)" in wrong.message


def test_a_name_stands_for_its_experiment_in_every_command(muster, submit, database):
    slow, _, dotted, year = (
        submit(f"name: {name}\ntrainer: {{model: mlp}}\n")
        for name in ("slow loader", "slow-loader-2", "resnet.2", "'2024'")
    )
    assert f"{slow} slow loader" in ok(muster("show", "slow loader"))
    assert json.loads(ok(muster("show", "slow loader.1", "--json")))["experiment_id"] == slow
    assert json.loads(ok(muster("show", "resnet.2", "--json")))["id"] == dotted
    assert json.loads(ok(muster("show", "resnet.2.1", "--json")))["experiment_id"] == dotted
    assert json.loads(ok(muster("show", "name:2024", "--json")))["id"] == year
    ok(muster("pause", "slow loader", str(dotted), "--yes"))
    assert desired(database)[slow] == desired(database)[dotted] == "pause"
    ok(muster("priority", "slow loader", "50"))
    ok(muster("move", str(dotted), "--before", "slow loader"))
    absent = muster("kill", "loader").exception
    assert isinstance(absent, CommandFailure)
    assert absent.message.startswith("'loader' names neither an experiment nor a trial")
    assert (absent.hint or "").startswith(f"there is {slow + 1} (slow-loader-2, QUEUED, ")
    assert f"{slow} (slow loader, QUEUED, " in (absent.hint or "")


def test_a_name_that_several_have_lists_them_and_touches_none(muster, submit, database):
    old, new, archived = submit(), submit(), submit()
    finish(database, archived)
    ok(muster("archive", str(archived)))
    several = muster("kill", "digits", "--yes").exception
    assert isinstance(several, CommandFailure)
    assert (several.exit_code, several.message) == (2, "2 experiments are named 'digits'.")
    assert (several.hint or "").startswith(f"give a number: {new} (digits, QUEUED, ")
    assert f", {old} (digits, QUEUED, " in (several.hint or "")
    assert set(desired(database).values()) == {"run"}
    finish(database, old, new)
    ok(muster("delete", str(old), str(new), "--yes"))
    assert f"{archived} digits" in ok(muster("show", "digits")), "the archived one is the only one"


def test_a_trial_is_shown_with_its_attempts_and_metrics(muster, search):
    shown = ok(muster("show", f"{search}.2"))
    assert shown.startswith(f"{search}.2 ")
    assert "train/loss" in shown
    assert "attempt" in shown
    assert json.loads(ok(muster("show", f"{search}.2", "--json")))["no"] == 2
    assert f"{search}.3" in ok(muster("show", str(search)))


def test_the_only_trial_needs_no_number(muster, submit):
    for _ in range(2):
        experiment_id = submit()
    said = muster("performance", str(experiment_id))
    assert f"Trial {experiment_id}.1 has measured no steps" in said.output


def test_a_command_line_is_submitted_with_what_its_options_say(
    muster, tmp_path, monkeypatch, database
):
    (tmp_path / "train.py").write_text("print(1)\n")
    monkeypatch.chdir(tmp_path)
    unknown = muster("run", "-d", "--secret", "HF_TOKEN", "train.py")
    assert unknown.exception.fields[0]["path"].startswith("environment.secrets")
    options = ("-n", "4", "--nodes", "2", "-e", "SEED=1", "--pool", "gpus")
    number = ok(muster("run", "-d", *options, "--json", "--", "python", "train.py", "--lr", "1"))
    config = json.loads(number[number.index("{") :])["config"]
    assert config["entrypoint"] == ["train.py", "--lr", "1"]
    assert config["environment"]["variables"] == {"SEED": "1"}
    resources = config["resources"]
    assert (resources["slots"], resources["nodes"], resources["pool"]) == (4, 2, "gpus")
    wrong = muster("run", "-d", "-e", "SEED", "train.py").exception
    assert "--env 'SEED' sets no variable" in wrong.message

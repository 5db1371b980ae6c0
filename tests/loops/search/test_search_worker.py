"""Searches with a costly model decide in a process of their own: the same, and in nobody's way."""

import os
import signal
import subprocess
import sys

import psutil
import pytest
from sqlalchemy import select

from muster_server import clock
from muster_server.db.models import EventRow, TrialRow
from muster_server.loops.search import search_pass
from muster_server.loops.search_worker import SearchWorker
from muster_server.schemas.experiments import ExperimentIn
from muster_server.services.experiments import submission
from muster_server.services.search import events
from muster_server.services.search.decide import run_search
from support.processes import wait_until

DOCUMENT = """
name: search
entrypoint: train.py
code: {installed: /srv}
hyperparameters: {lr: {log: [1e-4, 1e-1]}, width: {int: [8, 64]}}
search: {method: random, sampler: SAMPLER, metric: loss, goal: min, trials: 14, concurrent: 2, seed: 5}
"""
LEARNED_AFTER = 10
"""Trials that the Gaussian process draws at random."""


@pytest.fixture
def worker():
    made = []

    def make(**settings):
        made.append(SearchWorker(lambda: None, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def submit(database):
    def create(sampler="gp"):
        with database.transaction() as session:
            made = submission.create_experiment(
                session,
                ExperimentIn(document=DOCUMENT.replace("SAMPLER", sampler)),
                user_id=None,
                user_name="ada",
                now=clock.now(),
            )
        return made.experiment_id

    return create


def trials(database, experiment_id):
    with database.read() as session:
        return {
            row.no: row.hparams
            for row in session.scalars(
                select(TrialRow)
                .where(TrialRow.experiment_id == experiment_id)
                .order_by(TrialRow.no)
            )
        }


def end(database, experiment_id, no):
    """The trial has a value that follows from its hyperparameters, and completes."""
    with database.transaction() as session:
        trial = session.scalars(
            select(TrialRow).where(TrialRow.experiment_id == experiment_id, TrialRow.no == no)
        ).one()
        trial.state, trial.metric = "COMPLETED", abs(trial.hparams["lr"] - 0.01)
        events.on_trial_terminal(session, trial, clock.now())


def learn(database, experiment_id):
    """Let as many trials end as the model needs, and the search decide on all but the last of them."""
    for no in range(1, LEARNED_AFTER + 1):
        search_pass(database, clock.now())
        end(database, experiment_id, no)


def passes_until(database, worker, what, check):
    """Pass until `check` holds."""

    def holds():
        search_pass(database, clock.now(), worker)
        return check()

    wait_until(what, holds)


def the_process(worker):
    """The process of the worker, when it has begun."""
    (process,) = worker.processes
    return process


def test_a_worker_decides_what_the_loop_would(database, submit, worker):
    mine, theirs = submit(), submit()
    beside = worker()
    for no in range(1, 14):
        for experiment_id in (mine, theirs):
            if no > 1:
                end(database, experiment_id, no - 1)
        with database.transaction() as session:
            run_search(session, theirs, clock.now())
        expected = trials(database, theirs)
        passes_until(
            database,
            beside,
            f"trial {no + 1} is created",
            lambda expected=expected: len(trials(database, mine)) == len(expected),
        )
        assert trials(database, mine) == expected
    assert len(expected) == 14


def test_other_searches_decide_while_the_model_thinks(database, submit, worker):
    slow, quick = submit(), submit("random")
    learn(database, slow)
    beside = worker()
    search_pass(database, clock.now(), beside)
    process = the_process(beside)
    os.kill(process.pid, signal.SIGSTOP)
    end(database, quick, 1)
    before = len(trials(database, slow))
    search_pass(database, clock.now(), beside)
    assert len(trials(database, quick)) == 3
    assert len(trials(database, slow)) == before
    os.kill(process.pid, signal.SIGCONT)
    passes_until(
        database, beside, "the model decides", lambda: len(trials(database, slow)) == before + 1
    )
    assert events_of(database, slow) == []


def events_of(database, experiment_id):
    with database.read() as session:
        return list(
            session.scalars(
                select(EventRow.message).where(
                    EventRow.experiment_id == experiment_id,
                    EventRow.type == "search.without_model",
                )
            )
        )


def test_a_turn_that_takes_too_long_is_taken_at_random(database, submit, worker):
    experiment_id = submit()
    learn(database, experiment_id)
    at = [0.0]
    beside = worker(limit_s=30.0, monotonic=lambda: at[0])
    search_pass(database, clock.now(), beside)
    process = the_process(beside)
    os.kill(process.pid, signal.SIGSTOP)
    before = len(trials(database, experiment_id))
    search_pass(database, clock.now(), beside)
    assert len(trials(database, experiment_id)) == before
    at[0] = 30.0
    search_pass(database, clock.now(), beside)
    assert len(trials(database, experiment_id)) == before + 1
    assert events_of(database, experiment_id) == [
        "The next hyperparameters were drawn at random: the model took longer than 30 s."
    ]
    process.join(30)
    assert process.exitcode == -signal.SIGKILL


def test_a_process_that_dies_is_replaced_once_and_then_done_without(database, submit, worker):
    experiment_id = submit()
    learn(database, experiment_id)
    beside = worker()
    before = len(trials(database, experiment_id))
    search_pass(database, clock.now(), beside)
    for _ in range(2):
        process = the_process(beside)
        process.kill()
        process.join()
        passes_until(
            database,
            beside,
            "the end is noticed",
            lambda process=process: process not in beside.processes,
        )
    assert len(trials(database, experiment_id)) == before + 1
    assert events_of(database, experiment_id) == [
        "The next hyperparameters were drawn at random: the process of the model ended 2 times."
    ]
    # The next turn gets another one.
    end(database, experiment_id, LEARNED_AFTER + 1)
    passes_until(
        database,
        beside,
        "the model decides again",
        lambda: len(trials(database, experiment_id)) == before + 2,
    )
    assert len(events_of(database, experiment_id)) == 1


PARENT = """
import time
from muster_server.domain.search import SearchTurn
from muster_server.loops.search_worker import SearchWorker
from muster_server.services.search.decide import OfferedTurn
if __name__ == "__main__":
    worker = SearchWorker(lambda: None)
    turn = SearchTurn(state={"version": 0, "spec": {}})
    worker.ask(OfferedTurn(experiment_id=1, search_seq=0, seqs=(), turn=turn))
    (process,) = worker.processes
    print(process.pid, flush=True)
    time.sleep(600)
"""


def test_the_process_ends_with_a_killed_controller(tmp_path):
    path = tmp_path / "parent.py"
    path.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    _, alive = psutil.wait_procs([child], timeout=60)
    assert not alive

"""A job that an estimator or a tuner has submitted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.client import Client, ClientError
from muster.client.methods.experiments import TERMINAL_EXPERIMENT

from .progress import view

if TYPE_CHECKING:
    from muster.client import schema

MODEL_FOLDER = "muster-outputs/model"
"""Folder of the outputs that SM_MODEL_DIR names."""
POLL_S = 1.0
COLLECT_TIMEOUT_S = 600.0
"""Seconds to wait for the files of a job."""


class JobFailed(ClientError):
    """The job did not complete: FAILED or CANCELED."""


class TrainingJob:
    """A job by the number of its experiment; of a tuner's jobs, also by its trial."""

    def __init__(self, client: Client, experiment_id: int, trial_id: int | None = None) -> None:
        self.client = client
        self.experiment_id = experiment_id
        self._trial_id = trial_id

    def __repr__(self) -> str:
        trial = "" if self._trial_id is None else f", trial_id={self._trial_id}"
        return f"TrainingJob(experiment_id={self.experiment_id}{trial})"

    @property
    def name(self) -> str:
        return str(self.describe()["name"])

    @property
    def status(self) -> str:
        """State of the job: QUEUED, RUNNING, COMPLETED, FAILED, …"""
        if self._trial_id is not None:
            return str(self.client.trial(self._trial_id)["state"])
        return str(self.describe()["state"])

    @property
    def trial_id(self) -> int:
        """Id of its trial. Raises LookupError while there is none."""
        if self._trial_id is None:
            trials = self.client.trials(self.experiment_id, limit=1)
            if not trials:
                raise LookupError(f"experiment {self.experiment_id} has no trials yet")
            self._trial_id = int(trials[0]["id"])
        return self._trial_id

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return dict(self.client.trial(self.trial_id)["hparams"])

    def describe(self) -> schema.ExperimentDetail:
        """Return the experiment as the REST API describes it."""
        return self.client.experiment(self.experiment_id)

    def log_text(self) -> Iterator[str]:
        """Yield the lines of the log so far."""
        for line in self.client.log_lines(self.trial_id):
            yield str(line["text"])

    def wait(self, *, logs: bool = True, poll_s: float = POLL_S) -> schema.ExperimentDetail:
        """Show the job until it has ended, and return its experiment.

        In a notebook the cell shows a live view, elsewhere lines are printed. An interrupt ends the
        view and not the job. Raises JobFailed with the reason.
        """
        shown = view()
        if logs:
            lines: list[schema.LogLine] = []
            for batch in self.client.log_batches(
                experiment_id=self.experiment_id, follow=True, poll_s=poll_s
            ):
                if isinstance(batch, list):
                    lines += batch
                    continue
                experiment = self.describe()
                shown.show(experiment, lines)
                lines = []
                time.sleep(batch)
        while True:
            experiment = self.describe()
            shown.show(experiment, lines if logs else [])
            lines = []
            if experiment["state"] in TERMINAL_EXPERIMENT:
                break
            time.sleep(poll_s)
        if experiment["state"] != "COMPLETED":
            raise JobFailed(
                f"The job {experiment['name']} ({experiment['id']}) is {experiment['state']}: "
                f"{experiment['reason'] or 'no reason was given'}",
                code="client.job_failed",
            )
        return experiment

    def stop(self) -> None:
        """Stop it, with time for a last checkpoint."""
        if self._trial_id is not None:
            self.client.stop_trial(self._trial_id)
        else:
            self.client.stop(self.experiment_id)

    def fetch_model(self, folder: Path) -> Path:
        """Fetch what the script wrote into SM_MODEL_DIR below `folder`, and return its folder.

        Waits for a job that has not ended. Raises LookupError if it wrote nothing there, and
        TimeoutError if its files are not there after COLLECT_TIMEOUT_S.
        """
        self.client.wait_for_outputs(self.trial_id, timeout_s=COLLECT_TIMEOUT_S)
        files = self.client.outputs(self.trial_id)
        if not any(file["path"].startswith(f"{MODEL_FOLDER}/") for file in files):
            raise LookupError(
                f"the job {self.experiment_id} wrote nothing into SM_MODEL_DIR; "
                "its checkpoints are in client.checkpoints(trial_id)"
            )
        self.client.download_outputs(self.trial_id, folder, [MODEL_FOLDER], force=True)
        return folder / MODEL_FOLDER

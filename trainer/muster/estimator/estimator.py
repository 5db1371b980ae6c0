"""Estimator: one job after another from the same script."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from muster.client import Client
from muster.nearest import nearest

from .document import JobSpec, channels_of, document_of
from .jobs import TrainingJob

LOGS = ("All", "Training", "None")
IGNORED = {
    "role": "Muster's users and tokens say who may do what",
    "sagemaker_session": "pass client=muster.Client(…)",
    "instance_type": "say slots_per_node, slot_type and pool",
    "image_uri": "jobs run in the nodes' Python, or one built from `requirements`",
    "framework_version": "jobs use the torch of the nodes; `requirements` installs others",
    "py_version": "jobs use the nodes' Python",
    "volume_size": "disks are those of the nodes",
    "volume_kms_key": "disks are those of the nodes",
    "output_kms_key": "outputs are on the storage of the nodes",
    "subnets": "networks are those of the nodes",
    "security_group_ids": "networks are those of the nodes",
    "enable_network_isolation": "networks are those of the nodes",
    "encrypt_inter_container_traffic": "networks are those of the nodes",
    "input_mode": "data are read from where they are",
    "max_wait": "a job waits until its slots are free",
    "keep_alive_period_in_seconds": "nodes stay as they are between jobs",
    "debugger_hook_config": "`muster diagnose` and the performance page say where time goes",
    "profiler_config": "`muster profile` traces a running job",
    "disable_profiler": "`muster profile` traces a running job",
    "code_location": "code is sent to the server",
    "model_dir": "the script finds SM_MODEL_DIR",
}
"""Arguments of SageMaker's estimators that mean nothing here, and what stands in their place."""


class Estimator:
    """A training script and what it needs, to be run as a job by `fit`."""

    def __init__(
        self,
        entry_point: str,
        *,
        source_dir: str | os.PathLike[str] = ".",
        instance_count: int = 1,
        slots_per_node: int = 1,
        slot_type: Literal["cpu", "cuda"] = "cpu",
        distribution: Mapping[str, Any] | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        base_job_name: str = "",
        max_run: float | None = None,
        max_retry_attempts: int = 0,
        use_spot_instances: bool | None = None,
        checkpoint_s3_uri: str | None = None,
        metric_definitions: Sequence[Mapping[str, str]] = (),
        tags: Mapping[str, str] | Sequence[Mapping[str, str]] = (),
        output_path: str | os.PathLike[str] | None = None,
        requirements: Sequence[str] = (),
        pool: str | None = None,
        project: str | None = None,
        priority: int | None = None,
        client: Client | None = None,
        **others: Any,
    ) -> None:
        """Describe a job.

        entry_point: script, relative to `source_dir`, which is sent.
        instance_count: nodes; slots_per_node: slots on each, with a worker each if `distribution`
            enables torchrun, else with one process per node.
        distribution: `{"torchrun": {"enabled": True}}`; torch_distributed, pytorchddp and mpi mean
            the same, with `processes_per_host` for the number of workers on a node.
        hyperparameters: become arguments of the script, `--name value`.
        max_run: seconds for which the job may use its slots.
        max_retry_attempts: how often it is started again after its own failures.
        use_spot_instances: whether more urgent jobs may preempt it; by default they may.
        checkpoint_s3_uri: where checkpoints go, `s3://…` or `gs://…`.
        metric_definitions: metrics that are read from what rank 0 prints: the first group of each
            pattern is the value.
        output_path: local folder for `model_data`; the job's name by default.
        client: by default muster.Client().
        Other arguments of SageMaker's estimators are ignored with a warning. Raises TypeError for
        other names, and ValueError for values that cannot work.
        """
        for name in others:
            if name not in IGNORED:
                near = nearest(name, [*IGNORED, *JobSpec.__dataclass_fields__, "source_dir"])
                hint = f"; did you mean {near!r}?" if near else ""
                raise TypeError(f"Estimator has no argument {name!r}{hint}")
            warnings.warn(f"{name} is ignored: {IGNORED[name]}", stacklevel=2)
        self.source_dir = Path(source_dir).expanduser()
        if not (self.source_dir / entry_point).is_file():
            raise ValueError(f"entry_point: there is no file {self.source_dir / entry_point}")
        self.spec = JobSpec(
            entry_point=entry_point,
            instance_count=instance_count,
            slots_per_node=slots_per_node,
            slot_type=slot_type,
            distribution=distribution or {},
            hyperparameters=hyperparameters or {},
            environment=environment or {},
            name=base_job_name,
            max_run_s=max_run,
            max_retry_attempts=max_retry_attempts,
            use_spot_instances=use_spot_instances,
            checkpoint_storage=checkpoint_s3_uri,
            metric_definitions=metric_definitions,
            tags=tags if isinstance(tags, Mapping) else {tag["Key"]: tag["Value"] for tag in tags},
            pool=pool,
            project=project,
            priority=priority,
            requirements=requirements,
        )
        self.output_path = None if output_path is None else Path(output_path).expanduser()
        self._client = client
        self.latest_training_job: TrainingJob | None = None
        document_of(self.spec, {})

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = Client()
        return self._client

    def hyperparameters(self) -> dict[str, Any]:
        return dict(self.spec.hyperparameters)

    def fit(
        self,
        inputs: str | Mapping[str, str] | None = None,
        *,
        wait: bool = True,
        logs: str = "All",
        job_name: str | None = None,
    ) -> TrainingJob:
        """Submit a job, and with `wait` show it until it has ended.

        inputs: paths or URLs of data by channel; the script finds `train` as SM_CHANNEL_TRAIN. A
            single one is the channel `training`.
        logs: "All" or "None".
        Raises JobFailed if it ends in another way than COMPLETED, and client.Refused with what is
        wrong with the job.
        """
        show_logs = logs_wanted(logs)
        document = document_of(self.spec, channels_of(inputs, Path.cwd()))
        job = self.submit(document, job_name)
        self.latest_training_job = job
        if wait:
            job.wait(logs=show_logs)
        return job

    def submit(self, document: dict[str, Any], job_name: str | None) -> TrainingJob:
        """Submit a document with the estimator's code."""
        if job_name is not None:
            document["name"] = job_name
        experiment = self.client.submit(document, code=self.source_dir)
        return TrainingJob(self.client, int(experiment["id"]))

    def logs(self) -> None:
        """Show the latest job and its log until it has ended. Raises JobFailed."""
        self._latest().wait()

    def stop(self) -> None:
        """Stop the latest job."""
        self._latest().stop()

    @property
    def model_data(self) -> Path:
        """Local folder with what the latest job wrote into SM_MODEL_DIR, fetched when it is read.

        Raises LookupError if there is nothing.
        """
        job = self._latest()
        folder = self.output_path or Path(f"{job.name}-{job.experiment_id}")
        return job.fetch_model(folder)

    def _latest(self) -> TrainingJob:
        if self.latest_training_job is None:
            raise LookupError("there is no job yet: call fit() first")
        return self.latest_training_job


def logs_wanted(logs: str) -> bool:
    """Return whether an argument `logs` asks for the log. Raises ValueError for unknown values."""
    if logs not in LOGS:
        raise ValueError(f"logs={logs!r} is not one of {', '.join(map(repr, LOGS))}")
    return logs != "None"

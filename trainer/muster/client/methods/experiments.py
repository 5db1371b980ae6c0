"""Methods of the client for experiments, their trials and searches."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..connection import Connection
from ..drive import Drive
from ..waiting import Looks, waiting

if TYPE_CHECKING:
    from muster.code.version import CodeVersion

    from .. import schema


TERMINAL_EXPERIMENT = frozenset({"COMPLETED", "CANCELED", "FAILED"})


FIGURES_PAGE = 20
"""Most trials whose figures one answer has."""


class ExperimentMethods(Connection):
    """Submit, change, follow and stop experiments."""

    def submit(
        self,
        document: str | Path | Mapping[str, Any],
        *,
        code: str | os.PathLike[str] | None = None,
        overrides: Sequence[str] = (),
        blob_sha256: str | None = None,
        left_out: Sequence[str] = (),
        code_version: CodeVersion | None = None,
    ) -> schema.ExperimentDetail:
        """Create an experiment. Safe against a lost answer: the same submission is made once.

        document: a file or a dictionary, which is sent with the folder of its code as by `muster
            submit`; or the text of a document, which is sent without one unless `code` names it.
        code: folder to send instead of `code.path`, which is relative to the file, for a dictionary to
            the current folder.
        overrides: values to change, such as "resources.slots=2".
        blob_sha256: digest of code that the server has already; see `upload`.
        left_out: paths that an ignore file left out of that code, folders with a slash at their end;
            a job that misses one of them says why.
        code_version: commit that this code was at, where its folder is one of a git repository.
        Raises Refused with a field for each mistake in the document, and bundle.BundleError for a
        folder that cannot be sent.
        """
        text, written = _text_of(document), list(overrides)
        if blob_sha256 is None and (code is not None or not isinstance(document, str)):
            base = document.resolve().parent if isinstance(document, Path) else Path.cwd()
            blob_sha256, left_out, code_version = self._send_code(base, text, written, code)
        body = _experiment_in(text, written, blob_sha256)
        if left_out:
            body["left_out"] = list(left_out)
        if code_version is not None:
            body["code_version"] = code_version.body()
        return self.post_once("/experiments", body)

    def _send_code(
        self, base: Path, text: str, overrides: list[str], code: str | os.PathLike[str] | None
    ) -> tuple[str | None, Sequence[str], CodeVersion | None]:
        """Upload the code that a document needs; return its digest, what was left out of it, and the
        commit that it was at."""
        from muster.code.bundle import make_bundle
        from muster.code.folder import CodeFolder, code_folder
        from muster.code.version import code_version

        folder = code_folder(base, text, overrides)
        if code is not None:
            # The document may have no `code` at all; the server wants to read where it came from.
            overrides.append(f"code.path={json.dumps(os.fspath(code))}")
            include = folder.include if folder is not None else ()
            folder = CodeFolder(path=Path(code).expanduser().resolve(), include=include)
        if folder is None:
            return None, (), None
        bundle = make_bundle(folder.path, include=folder.include)
        try:
            version = code_version(folder.path)
            return self.upload(bundle), bundle.contents.left_out_names, version
        finally:
            bundle.remove()

    def preview(
        self,
        document: str | Path | Mapping[str, Any],
        *,
        overrides: Sequence[str] = (),
        blob_sha256: str | None = None,
    ) -> schema.PreviewOut:
        """Return the checks of a submission; also answers for an invalid document, with its errors."""
        return self.post(
            "/experiments:preview",
            _experiment_in(_text_of(document), overrides, blob_sha256),
            repeatable=True,
        )

    def fork(
        self,
        experiment_id: int,
        *,
        overrides: Sequence[str] = (),
        start_from: Mapping[str, Any] | None = None,
    ) -> schema.ExperimentDetail:
        """Create a new experiment from the document and code of another one.

        start_from: `{}` for its own newest checkpoint, else as the section `from` of a document.
        """
        body: dict[str, Any] = {"overrides": list(overrides)}
        if start_from is not None:
            body["from"] = dict(start_from)
        return self.post_once(f"/experiments/{experiment_id}:fork", body)

    def continue_(
        self,
        experiment_id: int,
        *,
        length: Mapping[str, int] | None = None,
        overrides: Sequence[str] = (),
    ) -> schema.ExperimentDetail:
        """Continue an experiment that has ended from its newest checkpoints.

        length: total training length counted from step 0, such as `{"epochs": 20}`.
        """
        body: dict[str, Any] = {"overrides": list(overrides)}
        if length is not None:
            body["length"] = dict(length)
        return self.post_once(f"/experiments/{experiment_id}:continue", body)

    def experiment(self, experiment_id: int) -> schema.ExperimentDetail:
        """Return an experiment with its document and resolved configuration."""
        return self.get(f"/experiments/{experiment_id}")

    def experiments(
        self,
        *,
        limit: int | None = None,
        state: str | Sequence[str] | None = None,
        project: str | None = None,
        labels: Sequence[str] = (),
        owner: str | None = None,
        name: str | None = None,
        where: Sequence[str] = (),
        sort: str | None = None,
    ) -> list[schema.ExperimentOut]:
        """Return experiments that meet all conditions, newest first unless sorted.

        labels: "name=value", or the name alone for any value. name: part of the name.
        where: conditions on columns, such as "metric.last.val/loss < 0.5".
        sort: a column; with - before it the largest first.
        """
        return list(
            self.pages(
                "/experiments",
                limit=limit,
                state=[state] if isinstance(state, str) else state,
                project=project,
                label=list(labels) or None,
                owner=owner,
                q=name,
                where=list(where) or None,
                sort=sort,
            )
        )

    def update(
        self,
        experiment_id: int,
        *,
        name: str | None = None,
        notes: str | None = None,
        labels: Mapping[str, str] | None = None,
        priority: int | None = None,
    ) -> schema.ExperimentDetail:
        """Change what is given; labels replace those that there are."""
        given = {"name": name, "notes": notes, "priority": priority}
        body: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        if labels is not None:
            body["labels"] = dict(labels)
        return self.patch(f"/experiments/{experiment_id}", body)

    def pause(self, experiment_id: int) -> schema.ExperimentOut:
        """Have the trials save a checkpoint and release their slots until `resume`."""
        return self.post(f"/experiments/{experiment_id}:pause", repeatable=True)

    def resume(self, experiment_id: int) -> schema.ExperimentOut:
        """Queue the trials of a paused experiment again."""
        return self.post(f"/experiments/{experiment_id}:resume", repeatable=True)

    def stop(self, experiment_id: int) -> schema.ExperimentOut:
        """Stop all trials, with time for a last checkpoint."""
        return self.post(f"/experiments/{experiment_id}:stop", repeatable=True)

    def kill(self, experiment_id: int) -> schema.ExperimentOut:
        """Kill all processes at once, without a last checkpoint."""
        return self.post(f"/experiments/{experiment_id}:kill", repeatable=True)

    def archive(self, experiment_id: int) -> schema.ExperimentOut:
        """Hide an experiment that has ended from lists."""
        return self.post(f"/experiments/{experiment_id}:archive", repeatable=True)

    def unarchive(self, experiment_id: int) -> schema.ExperimentOut:
        """Show an archived experiment in lists again."""
        return self.post(f"/experiments/{experiment_id}:unarchive", repeatable=True)

    def delete_experiment(
        self, experiment_id: int, *, keep_files: bool = False
    ) -> schema.DeletionOut:
        """Delete an experiment that has ended, with everything it recorded.

        keep_files: leave its checkpoint files.
        """
        return self.delete(f"/experiments/{experiment_id}", keep_files=keep_files)

    @waiting
    def wait(
        self, experiment_id: int, *, timeout_s: float | None = None, poll_s: float = 0.5
    ) -> Looks[schema.ExperimentDetail]:
        """Return the experiment once it has ended: COMPLETED, FAILED or CANCELED.

        Raises TimeoutError.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            experiment = self.experiment(experiment_id)
            if experiment["state"] in TERMINAL_EXPERIMENT:
                return experiment
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"experiment {experiment_id} is still {experiment['state']}")
            yield poll_s

    def trials(self, experiment_id: int, *, limit: int | None = None) -> list[schema.TrialOut]:
        """Return the trials of an experiment, by number."""
        return list(self.pages(f"/experiments/{experiment_id}/trials", limit=limit, sort="no"))

    def figures(self, experiment_id: int, nos: Sequence[int] = ()) -> dict[int, dict[str, float]]:
        """Return how fast the trials of an experiment are: id → metric → mean over the newest 100 rows
        that each rank measured, such as "throughput/samples_per_s".

        nos: numbers of trials; none for all.
        """
        found = self.pages(
            f"/experiments/{experiment_id}/figures", page_size=FIGURES_PAGE, no=list(nos) or None
        )
        return {one["trial_id"]: one["figures"] for one in found}

    def trial(self, trial_id: int) -> schema.TrialDetail:
        """Return a trial with its attempts, newest first."""
        return self.get(f"/trials/{trial_id}")

    def best_trial(self, experiment_id: int) -> schema.TrialDetail:
        """Return the best trial by the search metric, or the only one. Raises LookupError while there
        is neither."""
        experiment = self.experiment(experiment_id)
        found = experiment["best_trial_id"] or experiment["only_trial_id"]
        if found is None:
            raise LookupError(f"no trial of experiment {experiment_id} has reported its metric yet")
        return self.trial(found)

    def stop_trial(self, trial_id: int) -> schema.TrialOut:
        """Stop a trial, with time for a last checkpoint."""
        return self.post(f"/trials/{trial_id}:stop", repeatable=True)

    def kill_trial(self, trial_id: int) -> schema.TrialOut:
        """Kill the processes of a trial at once, without a last checkpoint."""
        return self.post(f"/trials/{trial_id}:kill", repeatable=True)

    def events(
        self, *, experiment_id: int | None = None, trial_id: int | None = None, limit: int = 100
    ) -> list[schema.EventOut]:
        """Return the events of an experiment or of a trial, newest first."""
        if (trial_id is None) == (experiment_id is None):
            raise ValueError("events are of a trial or of an experiment: give one of their ids")
        kind, number = (
            ("trials", trial_id) if experiment_id is None else ("experiments", experiment_id)
        )
        return list(self.pages(f"/{kind}/{number}/events", limit=limit))

    def evaluations(self, trial_id: int) -> list[schema.EvaluationOut]:
        """Return the evaluations of a trial's model, by name."""
        reply = self.call("GET", f"/trials/{trial_id}/evaluations")
        found: list[schema.EvaluationOut] = reply.json()
        return found

    def search(self, experiment_id: int) -> Drive:
        """Return the handle by which a program enqueues points, or asks for trials and tells results;
        see `muster.ask_tell`."""
        return Drive(self, experiment_id)

    def set_search_limits(
        self,
        experiment_id: int,
        *,
        trials: int | None = None,
        concurrent: int | Literal["auto"] | None = None,
    ) -> schema.SearchOut:
        """Change how many trials a running search creates in all, and how many run in parallel."""
        given = {"trials": trials, "concurrent": concurrent}
        body = {key: value for key, value in given.items() if value is not None}
        return self.put(f"/experiments/{experiment_id}/search/limits", body)


def _text_of(document: str | Path | Mapping[str, Any]) -> str:
    if isinstance(document, Path):
        return document.read_text(encoding="utf-8")
    return document if isinstance(document, str) else json.dumps(document)


def _experiment_in(
    document: str, overrides: Sequence[str], blob_sha256: str | None
) -> dict[str, Any]:
    body: dict[str, Any] = {"document": document}
    if overrides:
        body["overrides"] = list(overrides)
    if blob_sha256 is not None:
        body["blob_sha256"] = blob_sha256
    return body

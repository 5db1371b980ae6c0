"""What a program does with a Muster server: submit, follow, read, compare, fetch, stop."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from muster.numbers import decode_number

from .connection import RETRY_FOR_S, Connection, Json, quoted
from .drive import Drive
from .errors import Refused
from .frames import Frame
from .target import Target, find_target
from .waiting import Looks, streaming, waiting

if TYPE_CHECKING:
    from muster.code.version import CodeVersion

    from .deployments import Predictor
    from .models import Pulled
    from .outputs import Fetched

LOG_PAGE_LIMIT = 2000
"""Lines per request: the server's maximum."""
TERMINAL_EXPERIMENT = frozenset({"COMPLETED", "CANCELED", "FAILED"})
COLLECTED = frozenset({"complete", "off", "deleted"})
"""States of outputs that do not change any more by themselves."""
CURVE_POINTS = 1000
"""Points per curve, unless others are asked for."""
_NAMES = {"NaN", "Infinity", "-Infinity"}

OnProgress = Callable[[str], None] | None
Axis = Literal["step", "epoch", "time", "relative"]


class Client(Connection):
    """A client of one server. Methods may be called from several threads.

    Experiments, trials and checkpoints are named by their ids. Answers are the JSON objects of the
    REST API, which docs/reference/rest-api.md lists and /docs of a server describes; numbers to work
    with come as `Frame`. Methods that change something raise Refused with the server's reason;
    all methods raise Unreachable when no server answers for `retry_for_s`.
    """

    def __init__(
        self,
        target: Target | str | None = None,
        token: str | None = None,
        *,
        retry_for_s: float = RETRY_FOR_S,
    ) -> None:
        """Connect to an address such as "https://muster.example", with a token of `muster token
        create`.

        target: the server from MUSTER_URL, or of the last `muster up` or `muster login`, if there is
            none. token: by default MUSTER_TOKEN, or the token that was stored with the server.
        Raises NotConfigured when no server is known, and for what is no address.
        """
        if target is None:
            target = find_target()
        elif isinstance(target, str):
            target = Target(
                target.rstrip("/"), token or os.environ.get("MUSTER_TOKEN"), "the argument"
            )
        if token is not None and token != target.token:
            target = Target(target.url, token, target.source)
        super().__init__(target, retry_for_s=retry_for_s)
        self._predictor: Predictor | None = None

    def close(self) -> None:
        super().close()
        if self._predictor is not None:
            self._predictor.close()

    @classmethod
    def from_environment(cls) -> Self:
        return cls(find_target())

    def me(self) -> Json:
        """Return who the token belongs to, and what that user may do."""
        return self.get("/auth/me")

    def cluster(self) -> Json:
        """Return a summary of the cluster: nodes, slots, what runs and waits."""
        return self.get("/cluster")

    def nodes(self) -> list[Json]:
        """Return all nodes with their slots, by name."""
        return list(self.pages("/nodes"))

    def queue(self, *, limit: int | None = None) -> list[Json]:
        """Return the trials that wait, in the scheduler's order, each with its reason."""
        return list(self.pages("/queue", limit=limit))

    # ------------------------------------------------------------ submitting

    def submit(
        self,
        document: str | Path | Mapping[str, Any],
        *,
        code: str | os.PathLike[str] | None = None,
        overrides: Sequence[str] = (),
        blob_sha256: str | None = None,
        left_out: Sequence[str] = (),
        code_version: CodeVersion | None = None,
    ) -> Json:
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
            body["code_version"] = dataclasses.asdict(code_version)
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
    ) -> Json:
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
    ) -> Json:
        """Create a new experiment from the document and code of another one.

        start_from: `{}` for its own newest checkpoint, else as the section `from` of a document.
        """
        body: Json = {"overrides": list(overrides)}
        if start_from is not None:
            body["from"] = dict(start_from)
        return self.post_once(f"/experiments/{experiment_id}:fork", body)

    def continue_(
        self,
        experiment_id: int,
        *,
        length: Mapping[str, int] | None = None,
        overrides: Sequence[str] = (),
    ) -> Json:
        """Continue an experiment that has ended from its newest checkpoints.

        length: total training length counted from step 0, such as `{"epochs": 20}`.
        """
        body: Json = {"overrides": list(overrides)}
        if length is not None:
            body["length"] = dict(length)
        return self.post_once(f"/experiments/{experiment_id}:continue", body)

    # ------------------------------------------------------------ experiments

    def experiment(self, experiment_id: int) -> Json:
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
    ) -> list[Json]:
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
    ) -> Json:
        """Change what is given; labels replace those that there are."""
        given = {"name": name, "notes": notes, "priority": priority}
        body: Json = {key: value for key, value in given.items() if value is not None}
        if labels is not None:
            body["labels"] = dict(labels)
        return self.patch(f"/experiments/{experiment_id}", body)

    def pause(self, experiment_id: int) -> Json:
        """Have the trials save a checkpoint and release their slots until `resume`."""
        return self._act("experiments", experiment_id, "pause")

    def resume(self, experiment_id: int) -> Json:
        """Queue the trials of a paused experiment again."""
        return self._act("experiments", experiment_id, "resume")

    def stop(self, experiment_id: int) -> Json:
        """Stop all trials, with time for a last checkpoint."""
        return self._act("experiments", experiment_id, "stop")

    def kill(self, experiment_id: int) -> Json:
        """Kill all processes at once, without a last checkpoint."""
        return self._act("experiments", experiment_id, "kill")

    def archive(self, experiment_id: int) -> Json:
        """Hide an experiment that has ended from lists."""
        return self._act("experiments", experiment_id, "archive")

    def unarchive(self, experiment_id: int) -> Json:
        """Show an archived experiment in lists again."""
        return self._act("experiments", experiment_id, "unarchive")

    def delete_experiment(self, experiment_id: int, *, keep_files: bool = False) -> Json:
        """Delete an experiment that has ended, with everything it recorded.

        keep_files: leave its checkpoint files.
        """
        path = f"/experiments/{experiment_id}"
        return self._json(self.call("DELETE", path, params={"keep_files": keep_files}))

    def _act(self, kind: str, number: int, action: str) -> Json:
        return self.post(f"/{kind}/{number}:{action}", repeatable=True)

    @waiting
    def wait(
        self, experiment_id: int, *, timeout_s: float | None = None, poll_s: float = 0.5
    ) -> Looks[Json]:
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

    # ------------------------------------------------------------ trials

    def trials(self, experiment_id: int, *, limit: int | None = None) -> list[Json]:
        """Return the trials of an experiment, by number."""
        return list(self.pages(f"/experiments/{experiment_id}/trials", limit=limit, sort="no"))

    def trial(self, trial_id: int) -> Json:
        """Return a trial with its attempts, newest first."""
        return self.get(f"/trials/{trial_id}")

    def best_trial(self, experiment_id: int) -> Json:
        """Return the best trial by the search metric, or the only one. Raises LookupError while there
        is neither."""
        experiment = self.experiment(experiment_id)
        found = experiment["best_trial_id"] or experiment["only_trial_id"]
        if found is None:
            raise LookupError(f"no trial of experiment {experiment_id} has reported its metric yet")
        return self.trial(found)

    def stop_trial(self, trial_id: int) -> Json:
        """Stop a trial, with time for a last checkpoint."""
        return self._act("trials", trial_id, "stop")

    def kill_trial(self, trial_id: int) -> Json:
        """Kill the processes of a trial at once, without a last checkpoint."""
        return self._act("trials", trial_id, "kill")

    def events(
        self, *, experiment_id: int | None = None, trial_id: int | None = None, limit: int = 100
    ) -> list[Json]:
        """Return the events of an experiment or of a trial, newest first."""
        if (trial_id is None) == (experiment_id is None):
            raise ValueError("events are of a trial or of an experiment: give one of their ids")
        kind, number = (
            ("trials", trial_id) if experiment_id is None else ("experiments", experiment_id)
        )
        return list(self.pages(f"/{kind}/{number}/events", limit=limit))

    def evaluations(self, trial_id: int) -> list[Json]:
        """Return the evaluations of a trial's model, by name."""
        return list(self.get(f"/trials/{trial_id}/evaluations")["items"])

    # ------------------------------------------------------------ logs

    def log_batches(
        self,
        trial_id: int | None = None,
        *,
        experiment_id: int | None = None,
        trials: Sequence[int] = (),
        ranks: Sequence[int] = (),
        nodes: Sequence[str] = (),
        stream: str | None = None,
        attempt: int | None = None,
        levels: Sequence[str] = (),
        since: str | None = None,
        until: str | None = None,
        query: str | None = None,
        regex: bool = False,
        match_case: bool = False,
        tail: int | None = None,
        follow: bool = False,
        poll_s: float = 0.7,
    ) -> Iterator[list[Json] | float]:
        """Yield lists of log lines of a trial, or of an experiment, in order, and in between the
        seconds to wait before looking again; `log_lines` yields the lines one by one.

        tail: only that many lines (at least 1) from the end. follow: until the log is complete (see
            `patience`); otherwise what is there now.
        experiment_id: instead of a trial, all trials of this experiment, or those with the numbers
            `trials`. Of more than 500 streams those that were written to last are read.
        since, until: times as ISO 8601 with a zone. query: text that the lines contain, with
        `regex` a pattern of RE2; letters count as equal in either case unless `match_case`.
        """
        params: dict[str, Any] = {
            "rank": list(ranks) or None,
            "node": list(nodes) or None,
            "stream": stream,
            "attempt": attempt,
            "level": list(levels) or None,
            "since": since,
            "until": until,
            "q": query,
            "regex": True if regex else None,
            "match_case": True if match_case else None,
            "limit": LOG_PAGE_LIMIT,
        }
        if (trial_id is None) == (experiment_id is None):
            raise ValueError("a log is of a trial or of an experiment: give one of their ids")
        if experiment_id is not None:
            params["trial"] = list(trials) or None
            path = f"/experiments/{experiment_id}/logs"
        else:
            path = f"/trials/{trial_id}/logs"

        def page_at(**place: Any) -> Json:
            return self._json(self.call("GET", path, params={**params, **place}))

        if tail is None:
            page = page_at(**{"from": "head"})
        else:
            page = self._last_lines(page_at, max(1, tail))
        while True:
            yield page["lines"]
            # Without lines a search may only have used up its time, and goes on.
            if not page["lines"] and not page.get("search_stopped"):
                if page["complete"] or not follow:
                    return
                yield poll_s
            page = page_at(cursor=page["newer"])

    log_lines = streaming(log_batches)

    @staticmethod
    def _last_lines(page_at: Callable[..., Json], count: int) -> Json:
        """Return a page with the last `count` lines, which may take several pages of the server."""
        last = page_at(**{"from": "tail", "limit": min(count, LOG_PAGE_LIMIT)})
        pieces, left, older = [last["lines"]], count - len(last["lines"]), last["older"]
        while left > 0 and older is not None:
            page = page_at(cursor=older, limit=min(left, LOG_PAGE_LIMIT))
            pieces.append(page["lines"])
            left, older = left - len(page["lines"]), page["older"]
        return {**last, "lines": [line for piece in reversed(pieces) for line in piece]}

    # ------------------------------------------------------------ numbers

    def metrics(self, trial_id: int) -> list[Json]:
        """Return every series of a trial with its summary: name, rank, count, min, max, last."""
        return list(self.get(f"/trials/{trial_id}/metrics")["items"])

    def series(
        self,
        trial_id: int,
        *names: str,
        ranks: Sequence[int] = (),
        from_step: int | None = None,
        to_step: int | None = None,
    ) -> Frame:
        """Return every point of a trial's series: name, rank, attempt_no, step, time_ms, value.

        names, ranks: without them, all. Values may be NaN and infinite.
        """
        reply = self.call(
            "GET",
            f"/trials/{trial_id}/series.jsonl",
            params={
                "name": list(names) or None,
                "rank": list(ranks) or None,
                "from_step": from_step,
                "to_step": to_step,
            },
        )
        found: dict[str, list[Any]] = {
            name: [] for name in ("name", "rank", "attempt_no", "step", "time_ms", "value")
        }
        for line in reply.iter_lines():
            point = json.loads(line)
            for name, column in found.items():
                column.append(point[name])
        found["value"] = [decode_number(value) for value in found["value"]]
        return Frame(found)

    def curves(
        self,
        trial_ids: Sequence[int],
        names: Sequence[str],
        *,
        x: Axis = "step",
        max_points: int = CURVE_POINTS,
    ) -> Frame:
        """Return metrics of several trials for one chart: experiment_id, trial_no, trial_id, name, rank,
        step, x, value.

        x: what lies along the x axis: step, epoch, time (ms since 1970) or relative (ms since the
            trial began); None for points that have none.
        max_points: longer curves come as buckets, of which the value is the mean.
        """
        reply = self.get(
            "/series", trial=list(trial_ids), name=list(names), x=x, max_points=max_points
        )
        rows = []
        for curve in reply["items"]:
            series = curve["series"]
            for i, step in enumerate(series["step"]):
                value = series["last" if series["raw"] else "mean"][i]
                rows.append(
                    {
                        "experiment_id": curve["experiment_id"],
                        "trial_no": curve["trial_no"],
                        "trial_id": curve["trial_id"],
                        "name": series["name"],
                        "rank": series["rank"],
                        "step": step,
                        "x": _x_of(curve, i, x),
                        "value": _number(series["last"][i] if value is None else value),
                    }
                )
        return Frame.of_rows(rows)

    def compare(self, *experiment_ids: int, metrics: Sequence[str] = ()) -> Frame:
        """Return the trials of experiments, one per row: experiment, trial, trial_id, state, step,
        metric (the best value of its search metric), then hyperparameters, then the last values of
        `metrics`.

        Nested hyperparameters have names with dots. A value that a trial does not have is None.
        """
        rows = []
        for experiment_id in experiment_ids:
            for trial in self.trials(experiment_id):
                summary = self.trial(trial["id"])["summary"] if metrics else {}
                rows.append(
                    {
                        "experiment": experiment_id,
                        "trial": trial["no"],
                        "trial_id": trial["id"],
                        "state": trial["state"],
                        "step": trial["step"],
                        "metric": _number(trial["metric"]),
                        **dict(_flat(trial["hparams"])),
                        **{m: _number(summary[m]["last"]) for m in metrics if m in summary},
                    }
                )
        return Frame.of_rows(rows)

    # ------------------------------------------------------------ files

    def outputs(self, trial_id: int) -> list[Json]:
        """Return the files that a trial wrote, by path."""
        from .outputs import list_outputs

        return list_outputs(self, trial_id)

    @waiting
    def wait_for_outputs(
        self, trial_id: int, *, timeout_s: float | None = None, poll_s: float = 0.5
    ) -> Looks[Json]:
        """Return the summary of a trial's outputs once it has ended and all of them are collected,
        which is some seconds after its end. Raises TimeoutError."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            summary = self.get(f"/trials/{trial_id}/outputs/summary")
            if summary["state"] in COLLECTED:
                return summary
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(
                    f"the outputs of trial {trial_id} are not collected yet: {summary['state']}"
                )
            yield poll_s

    def download_outputs(
        self,
        trial_id: int,
        folder: str | os.PathLike[str],
        patterns: Sequence[str] = (),
        *,
        force: bool = False,
    ) -> Fetched:
        """Fetch outputs of a trial into a folder, and return what came of it.

        patterns: paths, folders or patterns such as "*.pt"; without them, everything.
        force: replace files that are there with other content; without it, they raise.
        """
        from .outputs import fetch_outputs

        return fetch_outputs(self, trial_id, patterns, Path(folder), force=force)

    def checkpoints(
        self, trial_id: int | None = None, *, experiment_id: int | None = None
    ) -> list[Json]:
        """Return the checkpoints of a trial, of an experiment, or all that there are, newest first."""
        if trial_id is not None:
            return list(self.pages(f"/trials/{trial_id}/checkpoints"))
        return list(self.pages("/checkpoints", experiment=experiment_id))

    def pin_checkpoint(self, checkpoint_id: int) -> Json:
        """Keep a checkpoint, whatever the policy of its experiment."""
        return self._act("checkpoints", checkpoint_id, "pin")

    def unpin_checkpoint(self, checkpoint_id: int) -> Json:
        """Leave a checkpoint to the policy of its experiment again."""
        return self._act("checkpoints", checkpoint_id, "unpin")

    @waiting
    def export_checkpoint(self, checkpoint_id: int, to: str | os.PathLike[str]) -> Looks[Path]:
        """Write a checkpoint to a file, and return its path: the model as safetensors if the built-in
        trainer saved it; else the file that the script saved, several as a tar archive.

        Raises Refused if no agent can read the checkpoint.
        """
        from .exports import looks_at_export

        asked = self.post(f"/checkpoints/{checkpoint_id}:export", repeatable=True)
        export = yield from looks_at_export(self, asked, on_wait=lambda _: None)
        if export["state"] == "failed":
            raise Refused(
                f"Checkpoint {checkpoint_id} was not exported: {export['message']}.",
                code="client.export_failed",
            )
        path = Path(to)
        self.download_to(f"/exports/{export['id']}/file", path)
        return path

    # ------------------------------------------------------------ models

    def models(self, *, project: str | None = None, text: str | None = None) -> list[Json]:
        """Return models by name. text: part of the name or the description."""
        return list(self.pages("/models", project=project, q=text))

    def model_versions(self, name: str) -> list[Json]:
        """Return the versions of a model, newest first."""
        return list(self.pages(f"/models/{quoted(name)}/versions"))

    def model_version(self, reference: str) -> Json:
        """Return a version with its files, lineage and card.

        reference: "NAME:3", "NAME@production", or "NAME" for the newest version.
        """
        from .models import find_version

        return find_version(self, reference)

    def register_model(
        self,
        /,
        name: str,
        *,
        checkpoint_id: int | None = None,
        trial_id: int | None = None,
        paths: Sequence[str] = (),
        **more: Any,
    ) -> Json:
        """Register a version from a checkpoint, or from outputs of a trial that has ended; the model is
        created if there is none. The same files once more are the same version.

        paths: files and folders of the outputs; without them, all. more: `notes`, `tags`, `signature`
            and `project`, as REST takes them.
        A version of the built-in trainer is ready when a node has read its checkpoint; see
        `wait_for_model`.
        """
        body: Json = {**more}
        if checkpoint_id is not None:
            body["checkpoint_id"] = checkpoint_id
        if trial_id is not None:
            body |= {"trial_id": trial_id, "paths": list(paths)}
        return self.post(f"/models/{quoted(name)}/versions", body, repeatable=True)

    def upload_model(
        self,
        /,
        name: str,
        source: str | os.PathLike[str],
        *,
        on_progress: OnProgress = None,
        **more: Any,
    ) -> Json:
        """Upload a file, or a folder, as a new version. What has arrived already is not sent again.

        more: `notes`, `tags`, `signature`, `metrics` and `project`, as REST takes them.
        """
        from .models import upload_files

        files = upload_files(self, Path(source), on_progress=on_progress)
        body = {"files": files, **more}
        return self.post(f"/models/{quoted(name)}/versions", body, repeatable=True)

    @waiting
    def wait_for_model(
        self, reference: str, *, timeout_s: float | None = None, poll_s: float = 0.5
    ) -> Looks[Json]:
        """Return a version once it is ready. Raises TimeoutError, and Refused if it failed."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            version = self.model_version(reference)
            if version["state"] == "ready":
                return version
            if version["state"] == "failed":
                raise Refused(
                    f"Version {version['number']} of model {version['model']} failed: "
                    f"{version['message']}.",
                    code="models.not_ready",
                )
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"version {version['number']} is still being made")
            yield poll_s

    def evaluate_model(
        self,
        /,
        reference: str,
        *,
        data: str = "digits",
        split: str = "test",
        batch_size: int | None = None,
        code: str | os.PathLike[str] | None = None,
        **more: Any,
    ) -> Json:
        """Submit a job that judges a version by the samples of a data set; return its experiment.

        reference: "NAME:3", "NAME@production", or "NAME" for the newest version. data: `digits`,
        `shakespeare`, `synthetic`, or `module:function` of the folder `code`. more: other sections of the
        document, such as `resources`. When it has ended, `model_uses` has the result.
        """
        section: Json = {"model": reference, "data": data, "split": split}
        if batch_size is not None:
            section["batch_size"] = batch_size
        document: Json = {"name": f"evaluate {reference}", "evaluate": section, **more}
        if code is not None:
            document.setdefault("code", {"path": "."})
        return self.submit(document, code=code)

    def model_uses(self, experiment_id: int) -> list[Json]:
        """Return the versions that an experiment uses, with what came of them."""
        return list(self.pages(f"/experiments/{experiment_id}/model-uses"))

    def model_leaderboards(self, data: str | None = None) -> list[Json]:
        """Return the leaderboards of evaluated versions, that of the newest evaluation first.

        data: only of this data set. Only evaluations by the same samples, and the same code of the
        metrics, are in one leaderboard.
        """
        found: list[Json] = self.call("GET", "/models:leaderboards", params={"data": data}).json()
        return found

    def model_lineage(self, reference: str) -> Json:
        """Return what a version comes from, and what was done with it."""
        version = self.model_version(reference)
        return self.get(f"/models/{quoted(version['model'])}/versions/{version['number']}/lineage")

    def set_model_alias(self, name: str, alias: str, version: int, *, reason: str = "") -> Json:
        """Let an alias name a version."""
        body = {"version": version, "reason": reason}
        path = f"/models/{quoted(name)}/aliases/{quoted(alias)}"
        return self._json(self.call("PUT", path, body=body))

    def delete_model_alias(self, name: str, alias: str, *, reason: str = "") -> None:
        """Remove an alias; its history stays."""
        path = f"/models/{quoted(name)}/aliases/{quoted(alias)}"
        self.call("DELETE", path, params={"reason": reason})

    def model_history(self, name: str, *, alias: str | None = None) -> list[Json]:
        """Return the moves of a model's aliases, newest first."""
        return list(self.pages(f"/models/{quoted(name)}/history", alias=alias))

    def promote_model(
        self,
        name: str,
        alias: str,
        experiment_id: int,
        *,
        metric: str | None = None,
        goal: Literal["min", "max"] | None = None,
    ) -> Json:
        """Let the best checkpoint of an experiment become an alias when it has ended, if it is better
        than what the alias names then. metric, goal: by default those of its search."""
        given = {"metric": metric, "goal": goal}
        body: Json = {"experiment_id": experiment_id, "alias": alias}
        body |= {key: value for key, value in given.items() if value is not None}
        return self.post(f"/models/{quoted(name)}/promotions", body, repeatable=True)

    def delete_model(self, reference: str, *, force: bool = False) -> None:
        """Delete a version ("NAME:3"), or a model with all its versions ("NAME").

        force: also what an alias names, which is removed.
        """
        name, _, number = reference.partition(":")
        path = f"/models/{quoted(name)}" + (f"/versions/{quoted(number)}" if number else "")
        self.call("DELETE", path, params={"force": force})

    def export_model(
        self,
        /,
        reference: str,
        formats: Sequence[str],
        *,
        code: str | os.PathLike[str] | None = None,
        **more: Any,
    ) -> Json:
        """Submit a job that exports a version; return its experiment.

        reference: "NAME:3", "NAME@production", or "NAME" for the newest version. formats: of
        `safetensors`, `hf`, `pt2` and `onnx`. code: folder with the functions that build the model and
        load its data, where they are your own. more: other sections of the document, such as
        `environment`. When it has ended, `pull_model` fetches an export with its `format`.
        """
        document: Json = {
            "name": f"export {reference}",
            "export": {"model": reference, "formats": list(formats)},
            "outputs": {"exclude": [".exporting/"]},  # what is not compared yet
            **more,
        }
        if code is not None:
            document.setdefault("code", {"path": "."})
        return self.submit(document, code=code)

    def model_exports(self, reference: str) -> list[Json]:
        """Return the jobs that export a version, newest first, each with its exports."""
        version = self.model_version(reference)
        path = f"/models/{quoted(version['model'])}/versions/{version['number']}/exports"
        return list(self.pages(path))

    def pull_model(
        self,
        reference: str,
        folder: str | os.PathLike[str],
        *,
        force: bool = False,
        cache: str | os.PathLike[str] | None = None,
        cache_bytes: int | None = None,
        format: str | None = None,
        on_progress: OnProgress = None,
    ) -> Pulled:
        """Fetch the files of a version into a folder, each verified by its digest. All of them appear
        there at once, or after an error none; an interrupted pull goes on where it was.

        force: replace files that are there with other content; without it, they raise.
        cache: folder in which files are kept for further pulls, at most `cache_bytes`.
        format: fetch its newest finished export in this format (`export_model`) instead. Those are
            not cached.
        """
        from .models import pull, pull_export

        if format is not None:
            return pull_export(
                self, reference, Path(folder), format, force=force, on_progress=on_progress
            )
        place = None if cache is None else Path(cache)
        return pull(
            self,
            reference,
            Path(folder),
            force=force,
            cache=place,
            cache_bytes=cache_bytes,
            on_progress=on_progress,
        )

    # ------------------------------------------------------------ deployments

    def deploy(
        self,
        /,
        model: str,
        *,
        name: str | None = None,
        replicas: int = 1,
        slots: int = 1,
        reason: str = "",
        **options: Any,
    ) -> Json:
        """Deploy a version of a model ("NAME@production", "NAME:3" or "NAME"), and return the
        deployment; `wait_for_deployment` waits until it answers.

        name: by default that of the model. slots: of one replica. options: those of the REST API, such as
        pool="gpus" or max_batch=64.
        """
        body = {"model": model, "replicas": replicas, "slots": slots, "reason": reason, **options}
        if name is not None:
            body["name"] = name
        return self.post("/deployments", body)

    def deployments(self) -> list[Json]:
        """Return all deployments by name."""
        return list(self.pages("/deployments"))

    def deployment(self, name: str) -> Json:
        """Return a deployment with its revisions and replicas."""
        return self.get(f"/deployments/{quoted(name)}")

    def update_deployment(self, name: str, model: str, *, reason: str = "") -> Json:
        """Roll out another version, replica by replica."""
        body = {"model": model, "reason": reason}
        return self.post(f"/deployments/{quoted(name)}:update", body)

    def roll_back_deployment(
        self, name: str, *, revision: int | None = None, reason: str = ""
    ) -> Json:
        """Roll out the version that served before, or that of a revision."""
        body: Json = {"reason": reason}
        if revision is not None:
            body["revision"] = revision
        return self.post(f"/deployments/{quoted(name)}:rollback", body)

    def scale_deployment(self, name: str, replicas: int) -> Json:
        """Change the number of replicas."""
        return self.post(
            f"/deployments/{quoted(name)}:scale", {"replicas": replicas}, repeatable=True
        )

    def stop_deployment(self, name: str) -> Json:
        """Stop a deployment: its replicas answer what they have begun, and end."""
        return self.post(f"/deployments/{quoted(name)}:stop", repeatable=True)

    def delete_deployment(self, name: str) -> None:
        """Delete a stopped deployment with its history."""
        self.delete(f"/deployments/{quoted(name)}")

    @waiting
    def wait_for_deployment(self, name: str, *, timeout_s: float | None = None) -> Looks[Json]:
        """Wait until a deployment is ready, or until it is stopped, and return it. After an update this
        is the case when it has been rolled out or given up; `message` says why it was. Raises
        TimeoutError."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            found = self.deployment(name)
            if found["state"] in ("ready", "stopped"):
                return found
            if until is not None and time.monotonic() > until:
                raise TimeoutError(f"Deployment {name} is {found['state']} after {timeout_s:g} s.")
            yield 0.5

    def predict(self, deployment: str, inputs: Any) -> list[Any]:
        """Return the output of a deployment for each row of the inputs, as nested lists.

        A request whose connection breaks, or that no replica takes, is sent once more; it may be
        computed twice. Needs a token of the role predict, member or admin.

        inputs: rows of the shape of a sample, as nested lists or an array. Raises Refused and
        Unreachable.
        """
        if self._predictor is None:
            from .deployments import Predictor

            self._predictor = Predictor(self)
        return self._predictor.predict(deployment, inputs)

    # ------------------------------------------------------------ searches

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
    ) -> Json:
        """Change how many trials a running search creates in all, and how many run in parallel."""
        given = {"trials": trials, "concurrent": concurrent}
        body = {key: value for key, value in given.items() if value is not None}
        return self._json(
            self.call("PUT", f"/experiments/{experiment_id}/search/limits", body=body)
        )


def _text_of(document: str | Path | Mapping[str, Any]) -> str:
    if isinstance(document, Path):
        return document.read_text(encoding="utf-8")
    return document if isinstance(document, str) else json.dumps(document)


def _experiment_in(document: str, overrides: Sequence[str], blob_sha256: str | None) -> Json:
    body: Json = {"document": document}
    if overrides:
        body["overrides"] = list(overrides)
    if blob_sha256 is not None:
        body["blob_sha256"] = blob_sha256
    return body


def _number(value: Any) -> Any:
    """Return a number of an answer, where NaN and infinities are text; None for None."""
    return decode_number(value) if value in _NAMES else value


def _x_of(curve: Json, i: int, x: Axis) -> Any:
    series = curve["series"]
    if curve["x"] is not None:
        return _number(curve["x"][i])
    if x == "step":
        return series["step"][i]
    time_ms = series["time_ms"][i]
    if x == "time":
        return time_ms
    return None if curve["start_ms"] is None else time_ms - curve["start_ms"]


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value

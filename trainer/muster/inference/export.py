"""Exports of a version of a model: files for other programs, each compared with the checkpoint.

    python -m muster.inference.export

writes `exports/FORMAT/…` into the folder of outputs. An export that cannot be
made, or answers differently than its tolerance allows, leaves no files and fails the job.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster import wire
from muster.byte_sizes import byte_size
from muster.document.inference import ExportFormat, ExportSection
from muster.document.model_config import CONFIG_FILE, WEIGHTS_FILE
from muster.document.train_config import ConfigError
from muster.inference import loading, reporting
from muster.inference.launching import ModelJob, run_program

if TYPE_CHECKING:
    from muster.inference.comparing import Predict, RecordedInputs, Tolerance
    from muster.inference.loading import LoadedModel

FOLDER = "exports"
"""Folder of the exports, within the folder of outputs."""
DRAFTS = ".exporting"
"""Folder beside the outputs in which an export is made and compared, before it appears under its name."""
SCRATCH_RATIO = 1.1
"""Bytes of an export for each byte of the weights in float32, at most."""
SCRATCH_BYTES = 64 * 2**20
"""Bytes of an export that do not depend on the size of the weights, at most."""

MESSAGE_MAX_CHARS = 1000


class _Stopped(BaseException):
    """Muster has asked to stop."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """How one format is written, and loaded again."""

    write: Callable[[LoadedModel, Path], None]
    reload: Callable[[Path], tuple[Predict, str] | None]
    """Return the model, and what computes it; None where nothing here can."""
    tolerance: Tolerance


def export(job: ModelJob) -> None:
    """Raises ConfigError and CannotLoad before anything is written."""
    section: ExportSection = job.section
    config = loading.read_config(job.folder)
    is_gpt = config.trainer["model"] == "gpt"
    if "hf" in section.formats and not is_gpt:
        raise ConfigError(
            f"export.formats: hf is possible for model: gpt, which is a GPT-2; this one is "
            f"{config.trainer['model']}, and can be exported as safetensors, pt2 and onnx"
        )
    if "onnx" in section.formats:
        _require_onnx()
    signal.signal(signal.SIGTERM, _stop)
    try:
        failures = _export_all(job, section.formats)
    except _Stopped:
        job.run.reporter.acknowledge_stop()
        _say("stopped; what was not finished is removed")
        return
    finally:
        shutil.rmtree(_work_folder() / DRAFTS, ignore_errors=True)
    if failures:
        job.run.message(f"not exported: {'; '.join(failures)}", "error")
        sys.exit(1)


def _stop(*_: Any) -> None:
    raise _Stopped


def _require_onnx() -> None:
    from muster.inference.graphs import missing_packages

    missing = missing_packages()
    if missing:
        raise ConfigError(
            f"export.formats: onnx needs the packages {' and '.join(missing)}, which {sys.executable} "
            "does not have; install them there, or let the job have them: "
            "environment: {requirements: [onnx, onnxscript, onnxruntime]}"
        )


def formats_of(version: Path) -> dict[ExportFormat, Format]:
    """Return all formats, for the version whose files lie in a folder."""
    from muster.inference import gpt2, graphs
    from muster.inference.comparing import Tolerance

    def copy(_: LoadedModel, folder: Path) -> None:
        shutil.copyfile(version / WEIGHTS_FILE, folder / WEIGHTS_FILE)

    def load(folder: Path) -> tuple[Predict, str]:
        import torch

        return loading.load(folder).module, f"torch {torch.__version__}"

    return {
        "safetensors": Format(write=copy, reload=load, tolerance=Tolerance(atol=0, rtol=0)),
        "hf": Format(
            write=gpt2.write,
            reload=gpt2.reload,
            tolerance=Tolerance(atol=1e-5, rtol=1e-5),
        ),
        "pt2": Format(
            write=graphs.write_program,
            reload=graphs.reload_program,
            tolerance=Tolerance(atol=1e-6, rtol=1e-6),
        ),
        "onnx": Format(
            write=graphs.write_onnx,
            reload=graphs.reload_onnx,
            tolerance=Tolerance(atol=1e-5, rtol=1e-4),
        ),
    }


def _export_all(job: ModelJob, names: tuple[ExportFormat, ...]) -> list[str]:
    """Make the exports one after the other, and report each as soon as it is there. Return a sentence
    for each that failed."""
    import torch

    from muster.inference.comparing import recorded_inputs

    _say(f"loading {job.used.model}:{job.used.version}")
    model = loading.load(job.folder)
    _require_room(len(names), 4 * model.num_parameters)
    inputs = recorded_inputs(model)
    _say(f"{model.num_parameters:,} parameters; compared on {inputs.source}")
    result: dict[str, Any] = {
        "torch": torch.__version__,
        "inputs": inputs.facts(),
        "exports": [],
    }
    formats = formats_of(job.folder)
    failures = []
    for name in names:
        if job.run.reporter.stop_notice is not None:
            raise _Stopped
        made = make(name, formats[name], model, inputs, version=job.folder)
        result["exports"].append(made)
        reporting.result(result)
        if made["state"] == "failed":
            failures.append(f"{name}: {made['message']}")
    return failures


def _work_folder() -> Path:
    """Return the folder whose files are the job's outputs; without an agent the current one."""
    kept = os.environ.get("MUSTER_OUTPUT_DIR")
    return Path(kept).parent if kept else Path.cwd()


def _path(name: str) -> str:
    """Return where an export is within the work folder: in the part of it that is always kept."""
    kept = os.environ.get("MUSTER_OUTPUT_DIR")
    return "/".join([*([Path(kept).name] if kept else []), FOLDER, name])


def _require_room(num_exports: int, weights_bytes: int) -> None:
    need = int(num_exports * (weights_bytes * SCRATCH_RATIO + SCRATCH_BYTES))
    free = shutil.disk_usage(_work_folder()).free
    if need > free:
        raise ConfigError(
            f"export.formats: {num_exports} exports may need {byte_size(need)}, and the disk of the "
            f"work folder has {byte_size(free)} free; make room, or ask for fewer formats at a time"
        )


def make(
    name: ExportFormat,
    format_: Format,
    model: LoadedModel,
    inputs: RecordedInputs,
    *,
    version: Path,
) -> dict[str, Any]:
    """Make one export, compare it, and let it appear in the folder of outputs under its name.

    version: folder with the files of the version. Return what is reported of it: its state is `done` or
    `failed`, with a message.
    """
    from muster.inference.comparing import ExportFailed

    began = time.monotonic()
    facts: dict[str, Any] = {
        "format": name,
        "state": "failed",
        "message": "",
        "verdict": "not_compared",
        "tolerance": asdict(format_.tolerance),
    }
    final = _work_folder() / _path(name)
    shutil.rmtree(final, ignore_errors=True)  # of an attempt before this one
    try:
        with _draft(name) as draft:
            _say(f"{name}: writing")
            format_.write(model, draft)
            if name != "hf":  # which has one of its own
                shutil.copyfile(version / CONFIG_FILE, draft / CONFIG_FILE)
            files = _files(draft)
            size_bytes = sum(file["size_bytes"] for file in files)
            _say(f"{name}: wrote {byte_size(size_bytes)}, loading it again")
            facts |= _compared(format_, model, inputs, draft)
            if facts["verdict"] == "beyond":
                raise ExportFailed(f"its answers are not those of the checkpoint: {_told(facts)}")
            final.parent.mkdir(parents=True, exist_ok=True)
            draft.replace(final)
    except (ExportFailed, OSError) as error:
        facts["message"] = str(error)[:MESSAGE_MAX_CHARS]
    except Exception as error:  # torch.export and onnx raise many kinds
        facts["message"] = _cause(error)
    else:
        facts |= {
            "state": "done",
            "path": _path(name),
            "files": files,
            "size_bytes": size_bytes,
            "digest": wire.content_digest({file["path"]: file["sha256"] for file in files}),
        }
    _say(f"{name}: {facts['message'] or _told(facts)}")
    return {**facts, "seconds": round(time.monotonic() - began, 3)}


def _compared(
    format_: Format, model: LoadedModel, inputs: RecordedInputs, draft: Path
) -> dict[str, Any]:
    """Load an export again, and return how its answers compare with those of the checkpoint."""
    from muster.inference.comparing import compare

    loaded = format_.reload(draft)
    if loaded is None:
        return {}
    predict, by = loaded
    comparison = compare(model.module, predict, inputs, format_.tolerance)
    return {**asdict(comparison), "compared_by": by}


def _told(facts: dict[str, Any]) -> str:
    """Return what came of a comparison, for people."""
    if facts["verdict"] == "not_compared":
        return "not compared, because onnxruntime is not installed"
    tolerance = facts["tolerance"]
    return (
        f"max difference {facts['max_abs']:.3g} ({facts['max_rel']:.3g} relative), arg-max agrees in "
        f"{facts['agreement']:.2%}, tolerance {tolerance['atol']:g} + {tolerance['rtol']:g} relative "
        f"({facts['compared_by']})"
    )


def _cause(error: BaseException) -> str:
    """Return kind and first line of what an error came from: torch wraps it into advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"[:MESSAGE_MAX_CHARS]


@contextmanager
def _draft(name: str) -> Iterator[Path]:
    """Give a folder, and remove what is left of it at the end."""
    draft = _work_folder() / DRAFTS / name
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _files(folder: Path) -> list[dict[str, Any]]:
    found = []
    for path in sorted(folder.iterdir()):
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        found.append({"path": path.name, "size_bytes": path.stat().st_size, "sha256": digest})
    return found


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(run_program("export", export))

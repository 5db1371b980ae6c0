"""What a command sends along with a document: its text, the folder of its code, and what is left
out of that."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.byte_sizes import byte_size
from muster.code.folder import CodeFolder, code_folder

from .output import say, usage_error, wants_json

if TYPE_CHECKING:
    from muster.client import Client, schema
    from muster.code.bundle import FolderContents, LeftOutEntry
    from muster.code.version import CodeVersion

DocumentArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="The experiment document (YAML or JSON; - is stdin), or a Slurm batch script.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change a value: --set resources.slots=2"),
]
CodeOption = Annotated[
    Path | None,
    typer.Option("--code", metavar="DIR", help="Send this folder instead of `code.path`."),
]
ReuseOption = Annotated[
    bool,
    typer.Option(
        "--reuse", help="Take the result of a finished trial with the same inputs: --set reuse=true"
    ),
]
UploadRootOption = Annotated[
    Path | None,
    typer.Option(
        "--upload-root",
        metavar="DIR",
        help="Send this folder, which holds the current one, and run in the current one. Default: what "
        "holds all that the script names within the same git checkout.",
    ),
]
LEFT_OUT_SHOWN = 5
"""Files and folders named per ignore file; the rest is counted."""


@dataclass(frozen=True, kw_only=True)
class SentCode:
    """Code that the server has. All are empty for a document that needs none."""

    sha256: str | None = None
    left_out: Sequence[str] = ()
    """Names of what ignore files left out, for hints when a job misses one of them."""
    version: CodeVersion | None = None
    """Commit that the folder was at, where it is one of a git repository."""


def read_document(file: str) -> str:
    """Return the text of a document or batch script. Raises CommandFailure."""
    if file.endswith(".py"):
        raise usage_error(
            f"{file} is a Python script, not a document.", f"run it: muster run -- python {file}"
        )
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        text = data.decode()
    except OSError as error:
        raise usage_error(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise usage_error(f"{file} is not UTF-8 text.") from None
    if not text.strip():
        raise usage_error(
            f"{'The input' if file == '-' else file} is empty.",
            "a document needs `name` and `entrypoint`; `muster run -- python train.py` needs none",
        )
    return text


def send_code(
    client: Client,
    file: str,
    document: str,
    overrides: list[str],
    code: Path | None,
    *,
    quiet: bool = False,
) -> SentCode:
    """Upload the code that a document needs, and say what is sent unless `quiet`.

    code: folder to send instead of the document's; added to `overrides`.
    """
    base = Path.cwd() if file == "-" else Path(file).resolve().parent
    folder = code_folder(base, document, overrides)
    if code is not None:
        # The document may have no `code` at all; the server wants to read where it came from.
        overrides.append(f"code.path={json.dumps(str(code))}")
        folder = CodeFolder(path=code, include=folder.include if folder is not None else ())
    return SentCode() if folder is None else upload_folder(client, folder, quiet=quiet)


def submit_with_code(
    client: Client, file: str, document: str, overrides: list[str], code: Path | None
) -> schema.ExperimentDetail:
    """Send the code that a document needs, as `send_code` does, and submit the document."""
    sent = send_code(client, file, document, overrides, code, quiet=wants_json())
    return client.submit(
        document,
        overrides=overrides,
        blob_sha256=sent.sha256,
        left_out=sent.left_out,
        code_version=sent.version,
    )


def say_notices(made: schema.ExperimentDetail) -> None:
    """Print what the server has to say about a new experiment, such as that it has been run before."""
    for notice in made.get("notices", ()):
        say(notice["text"])


def upload_folder(client: Client, folder: CodeFolder, *, quiet: bool = False) -> SentCode:
    """Upload a folder, and say what is sent unless `quiet`."""
    from muster.code.bundle import make_bundle
    from muster.code.version import code_version

    bundle = make_bundle(folder.path, include=folder.include)
    version = code_version(folder.path)
    try:
        if not quiet:
            for line in contents_text(bundle.contents):
                say(line)
        client.upload(bundle)
    finally:
        bundle.remove()
    return SentCode(sha256=bundle.sha256, left_out=bundle.contents.left_out_names, version=version)


def code_keys(
    words: Sequence[str], upload_root: Path | None, overrides: Sequence[str]
) -> dict[str, str]:
    """Return the section `code` of a command line that runs in the current folder: that folder, or one
    above it and the way to it. Says what it has found by itself. Raises CommandFailure.

    upload_root: as the user has chosen; None for no choice.
    """
    folder = Path.cwd().resolve()
    if upload_root is None:
        is_set = any(text.startswith("code") for text in overrides)
        found = None if is_set else _found_above(folder, words)
        if found is None:
            return {"path": "."}
        root = found
    else:
        root = upload_root.resolve()
    if root == folder:
        return {"path": "."}
    if not folder.is_relative_to(root):
        raise usage_error(
            f"--upload-root {upload_root} does not hold the current folder.",
            "name a folder above it, for example --upload-root ..",
        )
    return {
        "path": os.path.relpath(root, folder),
        "workdir": folder.relative_to(root).as_posix(),
    }


def code_of_script(file: str, code: Path | None, overrides: Sequence[str]) -> dict[str, str]:
    """Return the section `code` of a batch script; {} where the user has chosen by `--code`."""
    return code_keys([file], None, overrides) if code is None else {}


def _found_above(folder: Path, words: Sequence[str]) -> Path | None:
    """Return the folder to send so that what a script names is in it; None for `folder` itself."""
    from muster.code.above import named_above
    from muster.code.bundle import BundleError, check_limits, read_folder

    named = named_above(folder, words)
    if named is None:
        return None
    root = os.path.relpath(named.root, folder)
    why = "it is in no git checkout with that folder"
    if named.is_in_checkout:
        try:
            check_limits(read_folder(named.root))
        except BundleError as error:
            why = error.message
        else:
            say(
                f"Sending {root}, because the script names {named.name}. --upload-root . keeps to this folder."
            )
            return named.root
    say(
        f"Not sent: {named.name}, which the script names above this folder ({why}). --upload-root {root} sends it."
    )
    return None


def contents_text(contents: FolderContents) -> list[str]:
    """Return the lines that tell what of a folder is sent and what is left out."""
    files, (largest, *_) = contents.files, contents.largest
    total = byte_size(contents.size_bytes)
    lines = [
        f"Code: {len(files):,} files, {total}; the largest is {largest.name} "
        f"({byte_size(largest.size_bytes)})."
        if len(files) > 1
        else f"Code: {largest.name} ({total})."
    ]
    for ignore_file in dict.fromkeys(entry.ignore_file for entry in contents.left_out):
        entries = [e for e in contents.left_out if e.ignore_file == ignore_file]
        named = [_left_out_text(entry) for entry in entries[:LEFT_OUT_SHOWN]]
        if rest := entries[LEFT_OUT_SHOWN:]:
            named.append(f"{len(rest):,} more ({_size_text(rest)})")
        lines.append(
            f"Left out by {ignore_file}: {', '.join(named)}. `code.include` sends what is needed."
        )
    if contents.unsent:
        kinds = [_unsent_text(kind, names) for kind, names in contents.unsent.items()]
        lines.append(f"Not sent: {', '.join(kinds)}.")
    return lines


def _unsent_text(kind: str, names: Sequence[str]) -> str:
    """Return how many entries of a kind are not sent, and the first of them."""
    more = [f"{rest:,} more"] if (rest := len(names) - LEFT_OUT_SHOWN) > 0 else []
    counted = f"{len(names):,} {kind}{'' if len(names) == 1 else 's'}"
    return f"{counted} ({', '.join([*names[:LEFT_OUT_SHOWN], *more])})"


def _left_out_text(entry: LeftOutEntry) -> str:
    is_folder = entry.name.endswith("/")
    count = f"{entry.num_files:,} file{'' if entry.num_files == 1 else 's'}, " if is_folder else ""
    return f"{entry.name} ({count}{_size_text([entry])})"


def _size_text(entries: Sequence[LeftOutEntry]) -> str:
    least = "at least " if any(entry.is_partial for entry in entries) else ""
    return least + byte_size(sum(entry.size_bytes for entry in entries))

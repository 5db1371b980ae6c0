"""Whether an uploaded code bundle holds the files that a document names."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import PurePosixPath

from muster.code.archive import ArchiveMember, find_member
from muster.code.requirements import (
    EDITABLE_REFUSED,
    UnreadableRequirements,
    has_editable,
    read_requirements,
)
from muster.document.experiment import ExperimentConfig
from muster.document.running import CodeSection, is_requirements_file
from muster.launch.commands import entry_file
from muster_server.errors import FieldProblem

SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
ROUNDS_MAX = 5
"""How deep files of requirements that include others are followed."""
FILES_MAX = 100
"""Files of requirements that are looked at in each round."""


def check_entry_file(
    config: ExperimentConfig, members: Iterable[ArchiveMember]
) -> FieldProblem | None:
    """Return a problem when the bundle's files lack the entry point's script or a file of
    requirements.

    None when they are there, when the entry point names no file (a module may be installed), and
    when the file is an absolute path.
    """
    code = config.code or CodeSection()
    files = [(path, entry_file(words)) for path, words in config.entrypoints.items()]
    files += [
        ("environment.requirements", item)
        for item in config.environment.requirements
        if is_requirements_file(item)
    ]
    there = {member.name: member for member in members}
    for path, file in files:
        wanted = code.within(file)
        if file and not file.startswith("/") and find_member(wanted, there) is None:
            return FieldProblem(
                path, f"the code bundle has no file {wanted!r}", _hint(wanted, there)
            )
    return None


def check_line_ends(
    config: ExperimentConfig, members: Iterable[ArchiveMember]
) -> FieldProblem | None:
    """Return a problem when an entry point is a script with the line ends of DOS, which a shell reads
    as part of each command. Its member needs its content."""
    there = {m.name: m for m in members}
    for path, words in config.entrypoints.items():
        file = entry_file(words)
        wanted = (config.code or CodeSection()).within(file)
        member = find_member(wanted, there) if file else None
        if member is None or b"\r\n" not in (content := member.content or b""):
            continue
        is_shell = file.endswith(".sh") or PurePosixPath(words[0]).name in SHELLS
        has_shebang = words[0] == file and content.startswith(b"#!") and not file.endswith(".py")
        if is_shell or has_shebang:
            return FieldProblem(
                path,
                f"{file} has the line ends of DOS (CRLF), which a shell reads as part of each command",
                f"convert it: sed -i 's/\\r$//' {file}",
            )
    return None


def check_requirements(
    config: ExperimentConfig,
    members: Iterable[ArchiveMember],
    read_members: Callable[[Collection[str]], Iterable[ArchiveMember]],
) -> FieldProblem | None:
    """Return a problem with the bundle's files of requirements that a node would find.

    read_members: returns the bundle's files, those of the given names with their content.
    """
    there = {member.name: member for member in members}
    rounds = 0

    def read(names: Sequence[str]) -> dict[str, bytes]:
        nonlocal rounds
        rounds += 1
        # What lies on the nodes, or is too much to look at here, is left to them.
        inside = [name for name in names if not name.startswith("/")][:FILES_MAX]
        if rounds > ROUNDS_MAX or not inside:
            return dict.fromkeys(names, b"")
        found = {name: at.name for name in inside if (at := find_member(name, there))}
        content = {m.name: m.content or b"" for m in read_members(set(found.values()))}
        unseen = {name: b"" for name in names if name not in inside}
        return unseen | {name: content[at] for name, at in found.items()}

    code = config.code or CodeSection()
    files = [
        code.within(item) for item in config.environment.requirements if is_requirements_file(item)
    ]
    try:
        texts = read_requirements(files, read)
    except UnreadableRequirements as error:
        return FieldProblem("environment.requirements", str(error))
    if has_editable(texts.values()):
        return FieldProblem("environment.requirements", EDITABLE_REFUSED)
    return None


def _hint(wanted: str, names: Collection[str]) -> str:
    kind = PurePosixPath(wanted).suffix or ".py"
    scripts = [n for n in names if n.endswith(kind)]
    same_name = [n for n in scripts if PurePosixPath(n).name == PurePosixPath(wanted).name]
    near = difflib.get_close_matches(wanted, scripts[:5000], n=3, cutoff=0.5)
    shown = list(dict.fromkeys([*same_name[:3], *near])) or scripts[:5]
    if not shown:
        return f"the bundle holds no {kind} file at all; is code.path the right folder?"
    return f"it holds {', '.join(shown)}"

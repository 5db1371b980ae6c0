"""Build the wheels and the Helm chart of a release, the same bytes from the same commit, with a list of what the
wheels depend on.

    scripts/release [--out FOLDER]      builds into dist/
    scripts/release --check             builds twice, in different places, and compares
    scripts/release --image IMAGE       writes the SBOM of an image that is built into dist/, and nothing else

Builds from a copy of the tracked files, so nothing else in the checkout can get into a wheel. Prints the SHA-256,
size and name of each file.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

from bootstrap import ROOT
from sbom import (
    NAME,
    differences_from_lock,
    list_image,
    make_image_sbom,
    make_sbom,
    npm_packages,
)

SBOM = Path("build/sboms") / f"{NAME}.cdx.json"
"""Where hatch_build.py looks for it."""
CHART = Path("deploy/helm/muster")
BUILT = ("server/muster_server/static", "trainer/muster/client/schema.py")
"""Made by the build, and not in git."""
OTHER_PLACE = {"TZ": "Asia/Kathmandu", "LC_ALL": "et_EE.UTF-8", "PYTHONHASHSEED": "7"}
"""What may differ between two machines and must not show."""


def fail(message: str, hint: str) -> NoReturn:
    sys.exit(f"error: {message}\nhint: {hint}")


def git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True
    )
    if done.returncode:
        fail(
            f"`git {' '.join(arguments)}` failed: {done.stderr.strip()}.",
            "a release is built from a git checkout",
        )
    return done.stdout


def copy_tracked(tree: Path, *, built: bool = False) -> None:
    """Copy the tracked files as they are, with the time of the copy. built: also the dashboard and the types that
    the checkout has."""
    names = [name for name in git("ls-files", "-z").split("\0") if (ROOT / name).is_file()]
    for name in names if not built else [*names, *files_of(BUILT)]:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)


def files_of(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        found = [ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*")
        yield from (str(path.relative_to(ROOT)) for path in found if path.is_file())


def build(tree: Path, out: Path, time: int, variables: Mapping[str, str]) -> list[Path]:
    """Build the wheels and the chart of the tree into `out`, and write the SBOM beside them; return the files."""
    sbom = tree / SBOM
    sbom.parent.mkdir(parents=True, exist_ok=True)
    sbom.write_text(make_sbom(tree, time))
    given = {
        k: v for k, v in os.environ.items() if not k.startswith(("HATCH_", "PYTHON", "MUSTER_"))
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    env = {**given, "PATH": path, "SOURCE_DATE_EPOCH": str(time), **variables}
    for folder in (tree, *(part.parent for part in sorted(tree.glob("parts/*/pyproject.toml")))):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
        done = subprocess.run(
            command, cwd=folder, env=env, check=False, capture_output=True, text=True
        )
        if done.returncode:
            print(done.stdout, done.stderr, sep="", file=sys.stderr)
            fail(
                f"the wheel of {folder.relative_to(tree.parent)} was not built.",
                "the reason is above",
            )
    (wheel,) = out.glob(f"{NAME.replace('-', '_')}-*.whl")
    beside = out / f"{'-'.join(wheel.name.split('-')[:2])}.cdx.json"
    shutil.copyfile(sbom, beside)
    pack_chart(tree / CHART, out, time)
    return sorted(out.iterdir())


def pack_chart(chart: Path, out: Path, time: int) -> None:
    """Write the archive that `helm package` would, with all times that of the commit."""
    (version,) = re.findall(r"^version: (\S+)$", (chart / "Chart.yaml").read_text(), re.MULTILINE)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(path for path in chart.rglob("*") if path.is_file()):
            member = tarfile.TarInfo(f"{chart.name}/{file.relative_to(chart).as_posix()}")
            member.size, member.mtime, member.mode = file.stat().st_size, time, 0o644
            with file.open("rb") as content:
                tar.addfile(member, content)
    packed = gzip.compress(archive.getvalue(), mtime=time)
    (out / f"{chart.name}-{version}.tgz").write_bytes(packed)


def describe(files: Iterable[Path]) -> str:
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.stat().st_size:>10,} B  {file.name}"
        for file in files
    ]
    return "\n".join(lines)


def describe_image(image: str, out: Path, time: int) -> Path:
    """Write what is installed in an image into `out`. Ends where that is not what requirements.lock says."""
    try:
        listed = list_image(image)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"").decode().strip() or error
        fail(f"the image {image} cannot be run: {said}", "build it first: docker compose build")
    if found := differences_from_lock(listed, (ROOT / "requirements.lock").read_text()):
        fail(
            "\n".join([f"{image} is not what the lock says:", *found]), "build it from this commit"
        )
    npm = npm_packages(ROOT) if listed["has_dashboard"] else []
    sbom = out / f"{image.rpartition('/')[2].replace(':', '-')}.cdx.json"
    sbom.write_text(make_image_sbom(image, listed, npm, time))
    return sbom


def differences(one: Path, other: Path) -> list[str]:
    """Return what differs between two files of the same name, by member where they are wheels."""
    if one.read_bytes() == other.read_bytes():
        return []
    if one.suffix != ".whl":
        return [f"{one.name}: its content differs"]
    with zipfile.ZipFile(one) as first, zipfile.ZipFile(other) as second:
        infos = [
            {info.filename: info for info in archive.infolist()} for archive in (first, second)
        ]
        found = [
            f"{name}: only in one of them" for name in sorted(infos[0].keys() ^ infos[1].keys())
        ]
        for name in sorted(infos[0].keys() & infos[1].keys()):
            ours, theirs = infos[0][name], infos[1][name]
            if first.read(name) != second.read(name):
                found.append(f"{name}: its content differs")
            elif ours.date_time != theirs.date_time:
                found.append(f"{name}: its time differs")
            elif ours.external_attr != theirs.external_attr:
                found.append(f"{name}: its mode differs")
    return [
        f"{one.name}: {line}"
        for line in found or ["the order or compression of its members differs"]
    ]


def check(work: Path, time: int, *, built: bool = False) -> tuple[list[Path], list[str]]:
    """Build twice, in places that have nothing in common; return the files and what differs. built: with the
    dashboard that the checkout has."""
    outs = []
    for place, variables in {"a": {}, "somewhere/else/b": OTHER_PLACE}.items():
        tree, out = work / place / "tree", work / place / "out"
        out.mkdir(parents=True)
        copy_tracked(tree, built=built)
        if variables:  # files of another age, as in a clone of last year
            for file in tree.rglob("*"):
                os.utime(file, (1_700_000_000, 1_700_000_000))
        outs.append(build(tree, out, time, variables))
        shutil.rmtree(tree)
    names = [[file.name for file in files] for files in outs]
    if names[0] != names[1]:
        return outs[0], [f"the names of the files differ: {names[0]} and {names[1]}"]
    pairs = zip(*outs, strict=True)
    return outs[0], [line for one, other in pairs for line in differences(one, other)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--out", type=Path, default=ROOT / "dist", help="folder (default: dist)")
    place.add_argument(
        "--check", action="store_true", help="build twice and compare; write nothing"
    )
    parser.add_argument(
        "--image",
        action="append",
        help="an image whose SBOM to write, and nothing else; repeatable",
    )
    options = parser.parse_args()
    if options.out.exists() and not options.out.is_dir():
        parser.error(f"--out is {str(options.out)!r}, a file; name a folder, which may be new")
    time = int(git("log", "-1", "--format=%ct"))
    if options.image:
        options.out.mkdir(parents=True, exist_ok=True)
        print(describe(describe_image(image, options.out, time) for image in options.image))
        return
    changed = git("status", "--porcelain", "--untracked-files=no").splitlines()
    if changed and not options.check:
        names = ", ".join(line[3:] for line in changed[:5]) + (", …" if changed[5:] else "")
        what = "1 file differs" if len(changed) == 1 else f"{len(changed)} files differ"
        fail(f"{what} from the commit: {names}.", "commit or stash the changes")
    commit = git("rev-parse", "--short", "HEAD").strip()
    what = "twice; this takes a minute or two" if options.check else f"from commit {commit}"
    print(f"Building {what} …", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if options.check:
            files, found = check(work, time)
            print(describe(files))
            if found:
                sys.exit("\n".join(["error: two builds differ:", *found]))
            print("Two builds have the same bytes.")
            return
        tree, out = work / "tree", work / "out"
        out.mkdir()
        copy_tracked(tree)
        options.out.mkdir(parents=True, exist_ok=True)
        files = [Path(shutil.copy(file, options.out)) for file in build(tree, out, time, {})]
    print(describe(files))


if __name__ == "__main__":
    main()

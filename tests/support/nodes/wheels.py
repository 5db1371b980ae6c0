"""Wheels made by hand, so that packages can be installed without an index."""

from __future__ import annotations

import re
import zipfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def make_wheel(folder: Path, name: str, version: str, *, script: bool = False) -> None:
    """A wheel with one module that knows its version."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = '{version}'\n\n\ndef main():\n    print('program', VERSION)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if script:
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{name} = {name}:main\n"
    record = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(file, text)


def pack_installed(folder: Path, *requirements: str) -> None:
    """Wheels of installed packages and of all that they depend on, as an index would have them."""
    left, done = [Requirement(text) for text in requirements], set()
    while left:
        requirement = left.pop()
        if (key := (canonicalize_name(requirement.name), frozenset(requirement.extras))) in done:
            continue
        done.add(key)
        found = metadata.distribution(key[0])
        for text in found.requires or ():
            wanted = Requirement(text)
            extras = requirement.extras or {""}
            if wanted.marker is None or any(wanted.marker.evaluate({"extra": e}) for e in extras):
                left.append(wanted)
        if key[0] != "muster-train":
            _pack(folder, found)


def _pack(folder: Path, found: metadata.Distribution) -> None:
    tags = re.findall(r"^Tag: (.+)$", found.read_text("WHEEL") or "", re.MULTILINE)
    python, abi, platform = (
        ".".join(dict.fromkeys(part)) for part in zip(*(t.split("-") for t in tags), strict=True)
    )
    name = found.metadata["Name"].replace("-", "_").replace(".", "_").lower()
    path = folder / f"{name}-{found.version}-{python}-{abi}-{platform}.whl"
    if path.exists():
        return
    with zipfile.ZipFile(path, "w") as wheel:
        for file in found.files or ():
            place = Path(str(file.locate()))
            parts = file.parts
            if parts[0] == ".." and place.parent.name == "bin" and place.name in ("uv", "uvx"):
                info = f"{name}-{found.version}"
                wheel.write(place, f"{info}.data/scripts/{place.name}")
            elif parts[0] != ".." and place.is_file() and place.suffix != ".pyc":
                wheel.write(place, str(file))

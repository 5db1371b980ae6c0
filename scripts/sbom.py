"""What the wheel `muster-train` depends on, and what a container image contains, as software bills of materials
(CycloneDX 1.6, JSON).

That of the wheel lists the packages that its extras for running Muster bring, in the versions of `requirements.lock`
and with the hashes of their files there, and the npm packages that the dashboard contains. That of an image lists
what is installed in it, by Python and by Debian. The same files and the same time give the same text. Called by
scripts/release.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import re
import subprocess
import sys
import tomllib
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("server", "agent", "cli", "local")
"""The extras that run Muster itself. The others prepare Python environments of jobs, on top of a torch that is not
locked."""
ASKED_BY = {("email-validator", "pydantic"): "scim2-models"}
"""Who asks for what an extra of a package brings, by (what it brings, package): the lock names the package
alone, which others use without the extra."""
NAME = "muster-train"
LIST_NPM = (
    'import { packages } from "./scripts/licenses.ts"; console.log(JSON.stringify(packages()))'
)

LIST_IMAGE = """
import importlib.metadata, importlib.util, json, pathlib, subprocess
server = importlib.util.find_spec("muster_server")
print(json.dumps({
    "python": sorted([d.metadata["Name"], d.version] for d in importlib.metadata.distributions()),
    "debian": [line.split() for line in subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}\\n"],
        capture_output=True, text=True, check=True).stdout.splitlines()],
    "has_dashboard": bool(server) and (
        pathlib.Path(server.origin).parent / "static" / "index.html").exists(),
}))
"""


@dataclass(frozen=True)
class Pin:
    """One version in the lock. A package has several where they depend on the Python or the platform."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    """SHA-256 of each file of this version that may be installed, in hexadecimal digits."""
    parents: frozenset[str]
    """Packages that depend on it."""
    extras: set[str] = field(default_factory=set, compare=False)
    """Extras of the wheel that bring it."""


def read_lock(text: str) -> list[Pin]:
    pins = []
    for entry in re.split(r"^(?=[^ #])", text, flags=re.MULTILINE)[1:]:
        head = re.match(r"(\S+)==(\S+)(?: ; (.+?))?(?: \\|$)", entry, re.MULTILINE)
        via = re.search(r"^    # via (.+)$", entry, re.MULTILINE)
        if head is None or via is None:
            raise SystemExit(f"error: requirements.lock has an entry of another form:\n{entry}")
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)
        named = (name.split(" ")[0] for name in via[1].split(", "))
        parents = frozenset(ASKED_BY.get((head[1], name), name) for name in named)
        pins.append(Pin(head[1], head[2], head[3] or "", tuple(sorted(hashes)), parents))
    return pins


def direct_dependencies(extras: Mapping[str, Sequence[str]], extra: str) -> set[str]:
    """Return the names of what an extra asks for, through extras of the same wheel that it names."""
    names = set()
    for requirement in map(Requirement, extras[extra]):
        if canonicalize_name(requirement.name) == NAME:
            names.update(*(direct_dependencies(extras, inner) for inner in requirement.extras))
        else:
            names.add(canonicalize_name(requirement.name))
    return names


def choose(pins: Iterable[Pin], extras: Mapping[str, Sequence[str]]) -> list[Pin]:
    """Return the pins that the extras bring, each with the names of those extras."""
    children: dict[str, set[str]] = defaultdict(set)
    by_name: dict[str, list[Pin]] = defaultdict(list)
    for pin in pins:
        by_name[pin.name].append(pin)
        for parent in pin.parents:
            children[parent].add(pin.name)
    chosen = []
    for extra in EXTRAS:
        waiting, seen = sorted(direct_dependencies(extras, extra)), set[str]()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            waiting += children[name]
            if name not in by_name:
                raise SystemExit(
                    f"error: requirements.lock has no {name}, which the extra {extra} asks for.\n"
                    "hint: renew the lock: CONTRIBUTING.md has the command"
                )
            for pin in by_name[name]:
                if not pin.extras:
                    chosen.append(pin)
                pin.extras.add(extra)
    return sorted(chosen, key=lambda pin: (pin.name, pin.version))


def python_component(pin: Pin) -> Component:
    purl = PackageURL("pypi", None, pin.name, pin.version)
    properties = [Property(name="muster:extras", value=",".join(sorted(pin.extras)))]
    if pin.marker:
        properties.append(Property(name="muster:marker", value=pin.marker))
    return Component(
        type=ComponentType.LIBRARY,
        name=pin.name,
        version=pin.version,
        purl=purl,
        bom_ref=purl.to_string(),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=one) for one in pin.hashes],
        properties=properties,
    )


def npm_component(package: Mapping[str, str], licenses: LicenseFactory) -> Component:
    group, _, name = package["name"].rpartition("/")
    purl = PackageURL("npm", group or None, name, package["version"])
    algorithm, _, digest = package["integrity"].partition("-")
    content = base64.b64decode(digest).hex()
    return Component(
        type=ComponentType.LIBRARY,
        group=group or None,
        name=name,
        version=package["version"],
        purl=purl,
        bom_ref=purl.to_string(),
        licenses=[licenses.make_from_string(package["license"])],
        hashes=[
            HashType(alg=HashAlgorithm(f"SHA-{algorithm.removeprefix('sha')}"), content=content)
        ],
    )


def npm_packages(root: Path) -> list[dict[str, str]]:
    """Return what the dashboard contains, as its page of licenses lists it."""
    node = Path(sys.executable).with_name("node")
    listed = subprocess.run(
        [str(node), "--input-type=module", "-e", LIST_NPM],
        cwd=root / "frontend", check=True, stdout=subprocess.PIPE, text=True,
    ).stdout  # fmt: skip
    packages: list[dict[str, str]] = json.loads(listed)
    return packages


def list_image(image: str) -> dict[str, Any]:
    """Return what is installed in an image, by running a program in it that reaches nothing."""
    command = ["docker", "run", "--rm", "--network", "none", image, "python", "-c", LIST_IMAGE]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))


def differences_from_lock(listed: Mapping[str, Any], lock: str) -> list[str]:
    """Return a line for each Python package of an image that the lock has in other versions only. Those that it
    does not have at all, such as torch, may be of any version."""
    versions = defaultdict(set)
    for pin in read_lock(lock):
        versions[pin.name].add(pin.version)
    return [
        f"{name} {version} is installed, and requirements.lock has {', '.join(sorted(versions[key]))}"
        for name, version in listed["python"]
        if (key := canonicalize_name(name)) in versions and version not in versions[key]
    ]


def make_image_sbom(
    image: str, listed: Mapping[str, Any], npm: Sequence[Mapping[str, str]], time: int
) -> str:
    """Return the SBOM of an image that has these packages, dated `time` (seconds since 1970)."""
    name, _, version = image.rpartition("/")[2].partition(":")
    purls = [PackageURL("pypi", None, canonicalize_name(one), v) for one, v in listed["python"]]
    purls += [
        PackageURL("deb", "debian", one, v, {"arch": architecture})
        for one, v, architecture in listed["debian"]
    ]
    unique = sorted({purl.to_string(): purl for purl in purls}.items())
    whole = Component(
        type=ComponentType.CONTAINER, name=name, version=version or "latest", bom_ref=image
    )
    made_of = hashlib.sha256(f"{image} {time} {json.dumps([text for text, _ in unique])}".encode())
    bom = Bom(serial_number=uuid.UUID(bytes=made_of.digest()[:16], version=4))
    bom.metadata.timestamp = dt.datetime.fromtimestamp(time, dt.UTC)
    bom.metadata.component = whole
    licenses = LicenseFactory()
    parts = [npm_component(package, licenses) for package in npm]
    parts += [
        Component(
            type=ComponentType.LIBRARY,
            name=purl.name,
            version=purl.version,
            purl=purl,
            bom_ref=text,
        )
        for text, purl in unique
    ]
    bom.components.update(parts)
    bom.register_dependency(whole, parts)
    return _as_text(bom)


def make_sbom(root: Path, time: int) -> str:
    """Return the SBOM of the tree at `root`, dated `time` (seconds since 1970), valid against its schema."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    lock = (root / "requirements.lock").read_text()
    code = (root / "trainer/muster/__init__.py").read_text()
    version = re.findall(r'__version__ = "(.+)"', code)[0]
    licenses = LicenseFactory()

    purl = PackageURL("pypi", None, NAME, version)
    wheel = Component(
        type=ComponentType.APPLICATION, name=NAME, version=version, purl=purl,
        bom_ref=purl.to_string(), licenses=[licenses.make_from_string(project["license"])],
    )  # fmt: skip
    dashboard = Component(
        type=ComponentType.APPLICATION, name="muster-dashboard", version=version,
        bom_ref=f"muster-dashboard@{version}", licenses=wheel.licenses,
    )  # fmt: skip

    pins = choose(read_lock(lock), project["optional-dependencies"])
    components = {pin: python_component(pin) for pin in pins}
    names = {pin.name for pin in pins}
    npm = [npm_component(package, licenses) for package in npm_packages(root)]

    made_of = hashlib.sha256(
        f"{purl} {time}\n{lock}{json.dumps([p.bom_ref.value for p in npm])}".encode()
    )
    bom = Bom(serial_number=uuid.UUID(bytes=made_of.digest()[:16], version=4))
    bom.metadata.timestamp = dt.datetime.fromtimestamp(time, dt.UTC)
    bom.metadata.component = wheel
    bom.components.update(components.values(), npm, [dashboard])
    direct = set[str]().union(
        *(direct_dependencies(project["optional-dependencies"], extra) for extra in EXTRAS)
    )
    bom.register_dependency(
        wheel, [*(c for p, c in components.items() if p.name in direct), dashboard]
    )
    bom.register_dependency(dashboard, npm)
    for parent, component in components.items():
        bom.register_dependency(
            component,
            [one for pin, one in components.items() if parent.name in pin.parents & names],
        )
    return _as_text(bom)


def _as_text(bom: Bom) -> str:
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise SystemExit(f"error: the SBOM does not follow its schema: {error!r}")
    return f"{text}\n"

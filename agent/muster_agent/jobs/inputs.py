"""What a job is given besides its code: data sets, secrets, and where the others of its gang are."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping

from muster.document.codec import load
from muster.document.running import DataSection, EnvironmentSection
from muster.launch.variables import DATA_PREFIX, ROLE_VARIABLE
from muster.wire import AllocationSpec


def variable_of(name: str) -> str:
    """Return the variable in which a job finds the path or URL of a data set."""
    return f"{DATA_PREFIX}{name.upper()}"


def data_of(spec: AllocationSpec) -> dict[str, str]:
    """Return the path or URL of each data set of the spec's document that the node does not keep, by
    name."""
    data = spec.config.get("data") or {}
    described = {name: section.place for name, section in data_sections_of(spec).items()}
    places = {name: described.get(name, at) for name, at in data.items()}
    return {name: place for name, place in places.items() if place}


def data_sections_of(spec: AllocationSpec) -> dict[str, DataSection]:
    """Return the data sets of the spec's document of which it says more than where they are."""
    data = spec.config.get("data") or {}
    return {name: load(DataSection, at) for name, at in data.items() if not isinstance(at, str)}


def secrets_of_job(spec: AllocationSpec, secrets: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets that the job sees: not the login of a registry."""
    wanted = load(EnvironmentSection, spec.config.get("environment") or {})
    login = wanted.registry_login if wanted.registry_login not in wanted.secrets else None
    return {name: value for name, value in secrets.items() if name != login}


def role_variables(
    spec: AllocationSpec, address: str, addresses: Mapping[str, str]
) -> dict[str, str]:
    """Return what a member of a role is told of itself and of the others.

    address: host and port that it may listen on. addresses: those of the members of each role, in order.
    """
    return {
        ROLE_VARIABLE: spec.role,
        f"{ROLE_VARIABLE}_INDEX": str(spec.role_index),
        f"{ROLE_VARIABLE}_COUNT": str(spec.role_count),
        f"{ROLE_VARIABLE}_ADDRESS": address,
        **{f"{ROLE_VARIABLE}_{name.upper()}_ADDRESSES": each for name, each in addresses.items()},
    }


def read_secrets(fd: int | None) -> dict[str, str]:
    """Return the secrets that the agent has written to a pipe; {} if it died meanwhile."""
    if fd is None:
        return {}
    with os.fdopen(fd, "rb") as pipe, contextlib.suppress(ValueError):
        secrets: dict[str, str] = json.loads(pipe.read())
        return secrets
    return {}

"""Rules of secrets: names, values, and what looks like one."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,127}")
VALUE_BYTES_MIN = 8
"""Fewest bytes of a value: a shorter one cannot be masked, because logs are full of it by chance."""
VALUE_BYTES_MAX = 65_536
PER_OWNER_MAX = 200
"""Most secrets of one user or project."""

_REFUSED_PREFIXES = ("MUSTER_", "LD_", "PYTHON", "TORCH_ELASTIC_", "PET_")
_REFUSED_NAMES = frozenset({"PATH", "HOME"})

_SECRET_NAME = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|API_?KEY|ACCESS_?KEY|SECRET_?KEY|PRIVATE_?KEY)"
    r"(_|$)"
)
_SECRET_VALUE = re.compile(
    r"hf_[A-Za-z0-9]{20,}|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[\w-]{16,}"
    r"|sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|xox[abprs]-[\w-]{10,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----|[a-z][a-z0-9+]*://[^\s/:@]+:[^\s/@]{3,}@"
)


def problem_of_name(name: str, *, is_reserved: bool) -> str:
    """Return what is wrong with the name of a secret, as it follows the name; "" if it is fine.

    is_reserved: whether documents may not set a variable of this name either.
    """
    if not NAME.fullmatch(name):
        return (
            "is no name of a secret: use capital letters, digits and '_', no digit first, at most "
            "128 characters"
        )
    if is_reserved or name in _REFUSED_NAMES or name.startswith(_REFUSED_PREFIXES):
        return "is reserved: it would change what Muster, Python or the loader does"
    return ""


def problem_of_value(value: str) -> str:
    """Return what is wrong with a value, without repeating it; "" if it is fine."""
    size = len(value.encode("utf-8", "surrogatepass"))
    if "\0" in value:
        return "must not contain NUL, which an environment variable cannot hold"
    if size > VALUE_BYTES_MAX:
        return f"has {size} bytes; the most are {VALUE_BYTES_MAX}"
    if len(value.strip().encode("utf-8", "surrogatepass")) < VALUE_BYTES_MIN:
        return (
            f"is shorter than {VALUE_BYTES_MIN} bytes: so short a text could not be masked, because "
            "it occurs in logs by chance"
        )
    return ""


def looks_secret(name: str, value: str) -> bool:
    """Return whether a plain variable looks like a secret, by its name or its value.

    A path of a file that holds a secret is none.
    """
    if _SECRET_VALUE.search(value):
        return True
    is_path = value.startswith(("/", "./", "~")) and len(value) < 256
    return bool(value) and not is_path and bool(_SECRET_NAME.search(name.upper()))

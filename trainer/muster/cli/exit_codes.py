"""Exit codes of the `muster` command."""

from __future__ import annotations

EXIT_ERROR = 1
"""The server refused, or something is wrong on this machine."""
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3
"""No server is known, or it does not answer."""
EXIT_FAILED = 4
"""The experiment that was followed ended as FAILED."""
EXIT_CANCELED = 5
EXIT_INTERRUPTED = 130

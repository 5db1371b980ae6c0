"""The `muster` command. Nothing heavy is imported until a command needs it."""

from __future__ import annotations

import os
import sys

from .exit_codes import EXIT_ERROR, EXIT_INTERRUPTED


def main() -> None:
    """Run the command line; every expected error is one sentence, a hint and an exit code."""
    # httpx goes on without a command line of its own, whose imports take longer than httpx.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    try:
        from .app import command_line, listing
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in ("muster", "muster_server"):
            raise
        sys.stderr.write(
            f"error: The command line needs the package {error.name!r}, which is not installed.\n"
            'hint: pip install "muster-train[cli]" — or "muster-train[local]" for `muster up`\n'
        )
        sys.exit(EXIT_ERROR)
    from .output import report_error

    as_json = "--json" in sys.argv
    try:
        words = sys.argv[1:]
        # A shell that asks for completions says in variables what has been typed.
        is_list = words in ([], ["--help"]) and "_MUSTER_COMPLETE" not in os.environ
        app = listing() if is_list else command_line(words)
        # Not standalone: wrong use raises, so that it can be reported as JSON, too.
        code = app(standalone_mode=not as_json)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        code = report_error(error, as_json=as_json)
        if code is None:
            raise
    sys.exit(code)

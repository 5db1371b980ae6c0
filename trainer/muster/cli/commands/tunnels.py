"""Commands inside a running job: exec, shell, port."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..output import usage_error
from ..trials import TrialArgument

RankOption = Annotated[
    int | None, typer.Option("--rank", metavar="RANK", help="Open on the node of this rank.")
]


def exec_(
    trial: TrialArgument,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="Command to run, after --.")
    ],
    rank: RankOption = None,
    tty: Annotated[bool, typer.Option("--tty", "-t", help="Give the command a terminal.")] = False,
) -> None:
    """Run a command inside a running job, and exit with its exit code.

    It has the job's environment, folder and secrets, and ends with the job.
    """
    request = {"kind": "exec", "argv": command, "rank": rank, "has_terminal": tty}
    from ..channels import run

    run(trial, request, has_terminal=tty)


def shell(trial: TrialArgument, rank: RankOption = None) -> None:
    """Open a shell inside a running job.

    It has the job's environment, folder and secrets, and ends with the job.
    """
    if not sys.stdin.isatty():
        raise usage_error(
            "A shell needs a terminal, and stdin is none.",
            "run one command with `muster exec TRIAL -- COMMAND`",
        )
    from ..channels import run

    run(trial, {"kind": "shell", "rank": rank, "has_terminal": True}, has_terminal=True)


def port(
    trial: TrialArgument,
    remote: Annotated[
        int, typer.Argument(metavar="PORT", min=1, max=65_535, help="Port in the job.")
    ],
    local: Annotated[
        int | None,
        typer.Option("--local", metavar="PORT", min=0, max=65_535, help="Port on this machine."),
    ] = None,
    rank: RankOption = None,
) -> None:
    """Make a port of a running job available on this machine, until Ctrl-C.

    Only ports on which a process of the job listens can be reached: TensorBoard, a notebook.
    """
    from ..channels import forward

    request = {"kind": "port", "port": remote, "rank": rank}
    forward(trial, request, remote if local is None else local)

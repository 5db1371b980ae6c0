"""The commands and their names."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .commands import (
    checkpoints,
    cluster,
    deployments,
    diagnose,
    experiments,
    importing,
    lineage,
    local,
    logs,
    media,
    models,
    nodes,
    notifications,
    operations,
    outputs,
    performance,
    plan,
    predict,
    profile,
    progress,
    projects,
    queue,
    run,
    scaling,
    search,
    secrets,
    tunnels,
)


class CommandGroup(TyperGroup):
    """A reader that has seen enough (`muster logs 1 | head`) is not an error."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Nothing may be flushed into the pipe when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        return result


app = typer.Typer(
    name="muster",
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        from muster import __version__

        print(f"muster {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Queue, run and watch training on your own machines.

    The server and the token come from MUSTER_URL and MUSTER_TOKEN, or from cli.json in MUSTER_HOME,
    which `muster up` and `muster login` write.

    Exit codes: 0 success, 1 refused or failed, 2 incorrect usage, 3 no server, 4 the experiment
    failed, 5 it was canceled, 130 interrupted. `muster run` exits with the code of its command.
    """


app.command("up")(local.up)
app.command("status")(local.status)
app.command("run", context_settings={"allow_interspersed_args": False})(run.run)
app.command("submit")(experiments.submit)
app.command("validate")(experiments.validate)
app.command("predict")(predict.predict)
app.command("list")(experiments.list_)
app.command("show")(experiments.show)
app.command("logs")(logs.logs)
app.command("performance")(performance.performance)
app.command("diagnose")(diagnose.diagnose)
app.command("scaling")(scaling.scaling)
app.command("plan")(plan.plan)
app.command("progress")(progress.progress)
app.command("stacks")(progress.stacks)
app.command("profile")(profile.profile)
app.command("exec")(tunnels.exec_)
app.command("shell")(tunnels.shell)
app.command("port")(tunnels.port)
app.command("pause")(operations.pause)
app.command("resume")(operations.resume)
app.command("stop")(operations.stop)
app.command("kill")(operations.kill)
app.command("continue")(lineage.continue_)
app.command("fork")(lineage.fork)
app.command("archive")(operations.archive)
app.command("unarchive")(operations.unarchive)
app.command("delete")(operations.delete)
app.command("label")(operations.label)
app.command("budget")(projects.budget)
app.command("deletions")(projects.deletions)
app.command("retention")(projects.retention)
app.command("queue")(queue.queue)
app.command("priority")(queue.priority)
app.command("move")(queue.move)
app.command("login")(cluster.login)
app.add_typer(importing.app, name="import")
app.add_typer(projects.project_app, name="project")
app.add_typer(projects.pool_app, name="pool")
app.add_typer(secrets.app, name="secret")
app.add_typer(notifications.app, name="notify")
app.add_typer(nodes.app, name="node")
app.add_typer(search.app, name="search")
app.add_typer(checkpoints.app, name="checkpoint")
app.add_typer(outputs.app, name="outputs")
app.add_typer(media.app, name="media")
app.add_typer(models.app, name="model")
app.add_typer(deployments.app, name="deploy")
app.add_typer(cluster.agent_app, name="agent")
app.add_typer(cluster.token_app, name="token")

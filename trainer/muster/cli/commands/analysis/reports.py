"""Commands about reports: create, list, show, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ...absent import server
from ...group import CommandSet
from ...output import Cell, age, print_rows, printed_json, say, usage_error

if TYPE_CHECKING:
    from muster.client import schema

app = CommandSet(help="Reports: pages of text, charts and tables over the runs of a project.")

IdArgument = Annotated[int, typer.Argument(metavar="ID", help="From `muster report list`.")]
Format = Literal["md", "html", "latex", "csv"]


@app.command("create")
def create(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML with project, title, blocks.")],
) -> None:
    """Create a report from a file."""
    import yaml

    try:
        body = yaml.safe_load(file.read_text())
    except OSError as error:
        raise usage_error(f"{file} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise usage_error(f"{file} is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(body, dict):
        raise usage_error(f"{file} must have the keys project, title and blocks.")
    client = server()
    made = client.post("/reports", body)
    if not printed_json(made):
        say(f"Report {made['id']} ({made['title']}): {client.target.url}/reports/{made['id']}")


@app.command("list")
def list_(
    project: Annotated[str | None, typer.Option(help="Only reports of this project.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Number of reports, the newest.")] = 50,
) -> None:
    """List reports, the newest first."""
    columns: dict[str, Cell[schema.ReportOut]] = {
        ">id": "id",
        "title": "title",
        "project": "project",
        "owner": lambda one: one["owner"] or "-",
        "changed": lambda one: age(one["changed_at"]),
        "values": lambda one: f"frozen {age(one['frozen_at'])}" if one["frozen_at"] else "live",
    }
    wanted = {"limit": limit} | ({"project": project} if project is not None else {})
    page = server().get("/reports", **wanted)
    print_rows(page["items"], columns, empty="There are no reports.")


@app.command("show")
def show(report_id: IdArgument) -> None:
    """Show a report as text, with its tables and the last values of its curves."""
    client = server()
    if not printed_json(client.get(f"/reports/{report_id}/content")):
        typer.echo(_exported(report_id, "md"), nl=False)


@app.command("export")
def export(
    report_id: IdArgument,
    format: Annotated[
        Format,
        typer.Option(
            help="md and html have the whole report, latex (booktabs) and csv its tables."
        ),
    ] = "md",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write, instead of the terminal.")
    ] = None,
) -> None:
    """Write a report as one file."""
    text = _exported(report_id, format)
    if output is None:
        typer.echo(text, nl=False)
        return
    output.write_text(text)
    say(f"Wrote {output}.")


def _exported(report_id: int, form: Format) -> str:
    path = f"/reports/{report_id}/export"
    return server().call("GET", path, params={"format": form}).text

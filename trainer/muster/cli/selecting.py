"""The options by which a command says which experiments it is about: numbers, or a filter.

`@selecting()` puts them, and those that go with doing something to several, in place of a command's
parameter `asked`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, get_type_hints

import typer

from .output import usage_error
from .trials import TrialReference, parse_experiment, parse_trial


class State(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    COMPLETED = "COMPLETED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"


class Archived(StrEnum):
    exclude = "exclude"
    include = "include"
    only = "only"


NumbersArgument = Annotated[
    list[int] | None,
    typer.Argument(
        metavar="[EXPERIMENT]...",
        parser=parse_experiment,
        help="Numbers or names of the experiments.",
    ),
]
NumbersOrTrialsArgument = Annotated[
    list[TrialReference] | None,
    typer.Argument(
        metavar="[EXPERIMENT[.TRIAL]]...",
        parser=parse_trial,
        help="Numbers or names of the experiments (36), or their trials (36.2).",
    ),
]
StateOption = Annotated[
    list[State] | None,
    typer.Option("--state", case_sensitive=False, help="Select by state; repeatable."),
]
ProjectOption = Annotated[str | None, typer.Option("--project", help="Select by project.")]
LabelOption = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME[=VALUE]", help="Select by label; repeatable."),
]
OwnerOption = Annotated[str | None, typer.Option("--owner", help="Select by owner.")]
QueryOption = Annotated[
    str | None, typer.Option("-q", "--query", help="Select by part of the name.")
]
ArchivedOption = Annotated[
    Archived, typer.Option("--archived", help="Whether filters match archived experiments.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only show which experiments would be affected.")
]


@dataclass(frozen=True, kw_only=True)
class SelectionOptions:
    """Selection made with these options."""

    which: dict[str, Any]
    """The part of a bulk request that selects the experiments."""
    yes: bool
    dry_run: bool
    trials: tuple[TrialReference, ...] = ()
    """Trials named one by one; `which` is empty then."""

    def only(self, wrong: str, hint: str = "") -> int:
        """Return the number, if exactly one experiment was named. Raises Failure(wrong)."""
        numbers = self.which.get("ids", [])
        if len(numbers) != 1 or self.dry_run:
            raise usage_error(wrong, hint)
        return int(numbers[0])


def _options(
    numbers: Sequence[int | TrialReference] | None = None,
    state: StateOption = None,
    project: ProjectOption = None,
    label: LabelOption = None,
    owner: OwnerOption = None,
    query: QueryOption = None,
    archived: ArchivedOption = Archived.exclude,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> SelectionOptions:
    named = [n if isinstance(n, TrialReference) else TrialReference(n) for n in numbers or ()]
    trials = tuple(reference for reference in named if reference.no is not None)
    if not trials:
        which = selection(
            [reference.experiment for reference in named],
            state=state,
            project=project,
            label=label,
            owner=owner,
            query=query,
            archived=archived,
        )
        return SelectionOptions(which=which, yes=yes, dry_run=dry_run)
    if len(trials) < len(named) or any((state, project, label, owner, query)):
        raise usage_error(
            "Trials cannot be combined with experiments or a filter.",
            "name trials only, such as 36.1 36.2, or experiments only",
        )
    return SelectionOptions(which={}, yes=yes, dry_run=dry_run, trials=trials)


def selecting(
    *, archived: bool = True, trials: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator.

    archived: whether the command has --archived, too.
    trials: whether it takes trials (36.2), too.

    The command's own options stand between the numbers and the filter.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        first, *rest = [
            parameter
            for name, parameter in inspect.signature(_options).parameters.items()
            if archived or name != "archived"
        ]
        _, *own = inspect.signature(command).parameters.values()
        ours = {p.name for p in own}
        hints = get_type_hints(_options, include_extras=True)
        hints["numbers"] = NumbersOrTrialsArgument if trials else NumbersArgument
        hints |= get_type_hints(command, include_extras=True)
        parameters = [p.replace(annotation=hints[p.name]) for p in (first, *own, *rest)]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            mine = {name: given.pop(name) for name in ours}
            command(_options(**given), **mine)

        del run.__wrapped__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: hints[p.name] for p in parameters}
        return run

    return decorate


def selection(
    numbers: list[int] | None,
    *,
    state: list[State] | None = None,
    project: str | None = None,
    label: list[str] | None = None,
    owner: str | None = None,
    query: str | None = None,
    archived: Archived = Archived.exclude,
) -> dict[str, Any]:
    """Return the part of a bulk request that selects the experiments. Raises Failure."""
    given: dict[str, Any] = {
        "state": [s.value for s in state or ()],
        "project": project,
        "label": list(label or ()),
        "owner": owner,
        "q": query,
        "archived": archived.value if archived is not Archived.exclude else None,
    }
    filters = {k: v for k, v in given.items() if v}
    if bool(numbers) == bool(filters):
        wrong = "Numbers and a filter exclude each other." if numbers else "Which experiments?"
        raise usage_error(
            wrong, "their numbers, or a filter such as --state FAILED --label team=vision"
        )
    return {"ids": numbers} if numbers else {"filter": filters}

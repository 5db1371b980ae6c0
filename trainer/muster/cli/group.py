"""Groups of commands. What all commands have in common is written here once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from .output import choose_json

Command = TypeVar("Command", bound=Callable[..., Any])

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
JSON = inspect.Parameter(
    "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption
)


class CommandSet(typer.Typer):
    """A group of commands that take --json as their last option; see `wants_json`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"no_args_is_help": True, **settings})

    def command(
        self, name: str | None = None, *, takes_json: bool = True, **settings: Any
    ) -> Callable[[Command], Command]:
        add = super().command(name, **settings)

        def decorate(command: Command) -> Command:
            add(_with_json(command) if takes_json else command)
            return command

        return decorate


def _with_json(command: Callable[..., Any]) -> Callable[..., None]:
    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command).parameters.values()
    parameters = [*(p.replace(annotation=hints[p.name]) for p in own), JSON]

    @functools.wraps(command)
    def run(*, as_json: bool, **given: Any) -> None:
        choose_json(as_json)
        command(**given)

    del run.__wrapped__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run

"""What a page of a browser test writes to the console, or throws."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from playwright.sync_api import ConsoleMessage, Error, Page

NO_ERRORS = [
    # The browser reports every 4xx; asking who is signed in before signing in is one.
    "status of 401",
    # Chromium itself styles the text it puts in place of a selection in an editable element, and
    # the policy forbids that; the editor styles its text in another way.
    "Applying inline style violates",
]


@contextmanager
def no_errors(page: Page, refused: Collection[int] = ()) -> Iterator[None]:
    """Fail when the page wrote an error to the console or threw one meanwhile. The browser writes one for each
    answer that refuses a request; refused: statuses of those that are expected."""
    errors: list[str] = []
    known = [*NO_ERRORS, *(f"status of {status}" for status in refused)]

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error" and not any(part in message.text for part in known):
            errors.append(f"{message.text} ({message.location.get('url')})")

    def on_error(error: Error) -> None:
        errors.append(str(error))

    page.on("console", on_console)
    page.on("pageerror", on_error)
    try:
        yield
    finally:
        page.remove_listener("console", on_console)
        page.remove_listener("pageerror", on_error)
    assert errors == []

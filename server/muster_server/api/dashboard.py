"""The built dashboard: a handful of files, and index.html for every page the browser routes itself.

A path is looked up among the files found in the folder, never joined to it, so no spelling of
".." leads anywhere else.
"""

from __future__ import annotations

import os
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

STATIC_DIR = Path(__file__).resolve().parent.parent / "static"

_NOT_BUILT = """\
The dashboard is not part of this installation.

From a checkout, build it with:  cd frontend && npm ci && npm run build
The REST service works without it: see /docs.
"""


class _Page(Convertor[str]):
    """Any path except those of the services, where an unknown route is an error and not a page."""

    regex = r"(?!/*(?:api|agent|mcp)(?:/|$)).*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("page", _Page())


class Dashboard:
    """ASGI app for everything that is not a service."""

    def __init__(self, folder: Path = STATIC_DIR, prefix: str = "") -> None:
        self._folder = folder
        self._prefix = prefix
        self._files: dict[str, Path] = {}
        self._scanned_for: float | None = None
        self._responses = StaticFiles(directory=folder, check_dir=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await run_in_threadpool(self._answer, scope)
        await response(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        files = self._current_files()
        if "index.html" not in files:
            return PlainTextResponse(_NOT_BUILT, status_code=404)
        name = scope["path"].lstrip("/")
        is_page = "." not in name.rpartition("/")[2]
        found = files.get(name) or (files["index.html"] if is_page else None)
        if found is None:
            return PlainTextResponse("There is no such file.\n", status_code=404)
        if self._prefix and found == files["index.html"]:
            # The one file that names others from the root; all others name them relative to themselves.
            page = found.read_text().replace('="/', f'="{self._prefix}/')
            return HTMLResponse(page, headers={"Cache-Control": "no-cache"})
        response = self._responses.file_response(found, os.stat(found), scope)  # noqa: PTH116
        # Names under assets/ hold a hash of the content; everything else may change with a version.
        response.headers["Cache-Control"] = (
            "public, max-age=31536000, immutable" if name.startswith("assets/") else "no-cache"
        )
        return response

    def _current_files(self) -> dict[str, Path]:
        """Return the files by name, read again after a new build."""
        try:
            built_at = (self._folder / "index.html").stat().st_mtime
        except OSError:
            return {}
        if built_at != self._scanned_for:
            self._files = {
                path.relative_to(self._folder).as_posix(): path
                for path in self._folder.rglob("*")
                if path.is_file() and not path.is_symlink()
            }
            self._scanned_for = built_at
        return self._files


def dashboard_route(folder: Path = STATIC_DIR, *, prefix: str = "") -> Route:
    return Route(
        "/{path:page}",
        GZipMiddleware(Dashboard(folder, prefix), minimum_size=1024),
        methods=["GET"],
        name="dashboard",
    )

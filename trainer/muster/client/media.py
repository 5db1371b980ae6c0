"""Fetching what a script logged per step: images, tables, sound and the like, each into a file."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from muster.media import EXTENSIONS

from .connection import Connection
from .outputs import ExistsAlready, Fetched, NotFetched

if TYPE_CHECKING:
    from . import schema

LIST_PAGE = 200
POLL_S = 0.5
WAIT_S = 120.0
"""How long a node may take to send one item."""


def list_media(
    client: Connection,
    trial_id: int,
    *,
    names: Sequence[str] = (),
    rank: int | None = None,
    step: int | None = None,
) -> Iterator[schema.MediaItemOut]:
    """Return the items of a trial by step, without their content."""
    return client.pages(
        f"/trials/{trial_id}/media",
        page_size=LIST_PAGE,
        name=list(names) or None,
        rank=rank,
        from_step=step,
        to_step=step,
    )


def fetch_media(
    client: Connection,
    items: Sequence[schema.MediaItemOut],
    folder: Path,
    *,
    force: bool = False,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Fetched:
    """Fetch items into files of a folder, such as `samples/step-40-rank-0.png`.

    What is there already with the same content is left alone; other content is replaced only with
    `force`. on_progress: called with sentences for people. Raises ClientError.
    """
    result = Fetched()
    used: set[Path] = set()
    for item in items:
        path = _path_in(folder, item)
        if path in used:  # logged several times at one step
            path = path.with_name(f"{path.stem}-{item['id']}{path.suffix}")
        used.add(path)
        if path.exists():
            if _digest(path.read_bytes()) == item["sha256"]:
                result.num_unchanged += 1
                continue
            if not force:
                raise ExistsAlready(
                    f"There is other content in {path}.",
                    code="client.media_exists",
                    hint="--force replaces it; --output names another folder",
                )
        _write(path, _content(client, item, on_progress))
        result.num_files += 1
        result.size_bytes += item["size_bytes"]
    return result


def _content(
    client: Connection, item: schema.MediaItemOut, on_progress: Callable[[str], None]
) -> bytes:
    place = f"/trials/{item['trial_id']}/media/{item['id']}"
    deadline = time.monotonic() + WAIT_S
    waits_for = ""
    while (found := client.post(f"{place}:fetch", repeatable=True))["state"] != "ready":
        if found["state"] == "failed":
            raise NotFetched(
                f"{item['name']} of step {item['step']} cannot be had: {found['message']}",
                code="media.unavailable",
            )
        if time.monotonic() >= deadline:
            raise NotFetched(
                f"{found['waits_for']} did not send {item['name']} of step {item['step']} within "
                f"{WAIT_S:.0f} s.",
                code="client.media_not_sent",
                hint="run the command again when that node is online: it goes on where it stopped",
            )
        if found["waits_for"] != waits_for:
            waits_for = found["waits_for"]
            on_progress(f"Waiting for {waits_for}.")
        time.sleep(POLL_S)
    content = client.download(f"{place}/content")
    if _digest(content) != item["sha256"]:
        raise NotFetched(
            f"{item['name']} of step {item['step']} arrived with another digest.",
            code="client.damaged",
        )
    return content


def _path_in(folder: Path, item: schema.MediaItemOut) -> Path:
    """Return where an item goes: a name with slashes makes folders, and none leads out of `folder`."""
    parts = [re.sub(r"[^\w.=+-]+", "-", part).strip(".-") for part in item["name"].split("/")]
    inside = folder.joinpath(*(part[:100] for part in parts if part)) if any(parts) else folder
    return inside / f"step-{item['step']}-rank-{item['rank']}{EXTENSIONS.get(item['mime'], '.bin')}"


def _write(path: Path, content: bytes) -> None:
    """Write a file that appears under its name when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".draft-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

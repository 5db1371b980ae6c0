"""Models, their versions and aliases; see docs/guides/models.md."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from muster.wire import (
    ModelFilesReply,
    ModelFilesRequest,
    ModelPartReply,
    ModelPartRequest,
)
from muster_models.domain.registry.contents import ALIAS_NAME, MODEL_NAME, PATH_MAX_CHARS
from muster_models.schemas.registry import (
    AliasIn,
    LeaderboardOut,
    ModelAliasMoveOut,
    ModelAliasOut,
    ModelBlobOut,
    ModelExportJobOut,
    ModelFetchIn,
    ModelFetchOut,
    ModelIn,
    ModelItem,
    ModelLineageOut,
    ModelPatch,
    ModelPromotionOut,
    ModelUseOut,
    ModelVersionItem,
    ModelVersionOut,
    PromotionIn,
    VersionIn,
    VersionPatch,
)
from muster_models.services.registry import (
    agent_files,
    aliases,
    evaluations,
    exports,
    fetching,
    promotions,
    registration,
    uploads,
    uses,
    views,
)
from muster_models.services.registry import models as registry
from muster_server import clock
from muster_server.api.agents import AllocationId, read_body, require_self
from muster_server.api.http.deps import Agent, By, Config, Cursor, Db, Id, Limit, Me
from muster_server.api.http.openapi import stream_of
from muster_server.api.http.routing import Read, Router, Snapshot, Write
from muster_server.api.http.wire_route import WireRoute
from muster_server.db.engine import Database
from muster_server.errors import InvalidRequest
from muster_server.middleware.limits import MODEL_PIECE_MAX_BYTES
from muster_server.schemas.base import Page, SafeStr
from muster_server.services.core.accounts import identity

router = Router(tags=["models"])
agent_router = APIRouter(tags=["agents"], route_class=WireRoute)

Model = Annotated[str, Path(pattern=MODEL_NAME, description="Name of the model.")]
Alias = Annotated[str, Path(pattern=ALIAS_NAME)]
Number = Annotated[int, Path(ge=1, lt=2**31, description="Number of the version.")]
Sha256 = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
Force = Annotated[bool, Query(description="Also what an alias names; the alias is removed.")]
_RANGE = re.compile(r"bytes=(\d{1,15})-")


@router.get("/models")
def list_models(
    session: Snapshot,
    me: Me,
    project: Annotated[SafeStr | None, Query(max_length=128)] = None,
    q: Annotated[
        SafeStr | None, Query(max_length=200, description="Part of the name or description.")
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[ModelItem]:
    """List models by name, with their aliases."""
    return views.list_models(session, me, project=project, text=q, cursor=cursor, limit=limit)


@router.post("/models", status_code=201)
def create_model(body: ModelIn, session: Write, by: By) -> ModelItem:
    """Create a model without versions. Registering a version creates its model by itself."""
    return views.model_item(session, by.principal, registry.create_model(session, body, by))


@router.get("/models/{name}")
def get_model(name: Model, session: Read, me: Me) -> ModelItem:
    """Return a model with its aliases."""
    return views.model_item(session, me, registry.find_model(session, name))


@router.patch("/models/{name}")
def update_model(name: Model, body: ModelPatch, session: Write, by: By) -> ModelItem:
    """Change the name, description or tags of a model."""
    model = registry.update_model(session, name, body, by)
    return views.model_item(session, by.principal, model)


@router.delete("/models/{name}", status_code=204)
def delete_model(name: Model, session: Write, by: By, force: Force = False) -> None:
    """Delete a model with all its versions. 409 while an alias names one of them, unless forced.
    Checkpoints and outputs stay where they are, under the policy of their experiment again."""
    registry.delete_model(session, name, by, force=force)


@router.get("/models/{name}/versions")
def list_model_versions(
    name: Model, session: Snapshot, cursor: Cursor = None, limit: Limit = 50
) -> Page[ModelVersionItem]:
    """List the versions of a model, newest first."""
    return views.list_versions(session, name, cursor=cursor, limit=limit)


@router.get("/experiments/{experiment_id}/model-versions")
def list_experiment_model_versions(
    experiment_id: Id, session: Snapshot, cursor: Cursor = None, limit: Limit = 50
) -> Page[ModelVersionItem]:
    """List the versions of models that an experiment produced, newest first."""
    return views.versions_of_experiment(session, experiment_id, cursor=cursor, limit=limit)


@router.get("/experiments/{experiment_id}/model-uses")
def list_experiment_model_uses(
    experiment_id: Id, session: Snapshot, cursor: Cursor = None, limit: Limit = 50
) -> Page[ModelUseOut]:
    """List the versions of models that an experiment uses, newest first, with what came of them."""
    return uses.of_experiment(session, experiment_id, cursor=cursor, limit=limit)


@router.get("/models/{name}/versions/{number}/uses")
def list_model_version_uses(
    name: Model, number: Number, session: Snapshot, cursor: Cursor = None, limit: Limit = 50
) -> Page[ModelUseOut]:
    """List the experiments that use a version, newest first: jobs that read, export, evaluate and
    serve it, with what came of them."""
    version = registry.find_version(session, registry.find_model(session, name), number)
    return uses.of_version(session, version, cursor=cursor, limit=limit)


@router.get("/models/{name}/versions/{number}/exports")
def list_model_version_exports(
    name: Model, number: Number, session: Snapshot, cursor: Cursor = None, limit: Limit = 50
) -> Page[ModelExportJobOut]:
    """List the jobs that export a version, newest first: for each format its state, files, and how
    its answers compare with those of the checkpoint."""
    version = registry.find_version(session, registry.find_model(session, name), number)
    return exports.of_version(session, version, cursor=cursor, limit=limit)


@router.get("/models/{name}/versions/{number}/lineage")
def get_model_lineage(name: Model, number: Number, session: Snapshot) -> ModelLineageOut:
    """Return what a version comes from, and what was done with it: exports, evaluations,
    predictions, deployments, and trainings that read it."""
    model = registry.find_model(session, name)
    version = registry.find_version(session, model, number)
    return uses.lineage_both_ways(session, model, version)


@router.get("/models:leaderboards")
def list_model_leaderboards(
    session: Snapshot,
    data: Annotated[
        SafeStr | None, Query(max_length=256, description="Only of this data set.")
    ] = None,
) -> list[LeaderboardOut]:
    """List versions by how good they are, for each data set. Only evaluations by the same samples and
    the same code of the metrics are ranked together."""
    return evaluations.read_leaderboards(session, data=data)


@router.post("/models/{name}/versions", status_code=201)
def register_model_version(
    name: Model, body: VersionIn, session: Write, by: By, settings: Config
) -> ModelVersionOut:
    """Register a version from a checkpoint, from outputs of a trial, or from uploaded files. Files
    of the same origin once more return the version that there is."""
    model, version, is_new = registration.register(session, name, body, by, settings=settings)
    return views.version_out(session, by.principal, model, version, is_new=is_new)


@router.get("/models/{name}/versions/{number}")
def get_model_version(name: Model, number: Number, session: Snapshot, me: Me) -> ModelVersionOut:
    """Return a version with its files, lineage and model card."""
    model = registry.find_model(session, name)
    return views.version_out(session, me, model, registry.find_version(session, model, number))


@router.patch("/models/{name}/versions/{number}")
def update_model_version(
    name: Model, number: Number, body: VersionPatch, session: Write, by: By
) -> ModelVersionOut:
    """Change notes and tags of a version; nothing else of it ever changes."""
    model, version = registration.update_version(session, name, number, body, by)
    return views.version_out(session, by.principal, model, version)


@router.delete("/models/{name}/versions/{number}", status_code=204)
def delete_model_version(
    name: Model, number: Number, session: Write, by: By, force: Force = False
) -> None:
    """Delete a version. 409 while an alias names it, unless forced."""
    registration.delete_version(session, name, number, by, force=force)


@router.get("/models/{name}/aliases/{alias}")
def get_model_alias(name: Model, alias: Alias, session: Snapshot, me: Me) -> ModelVersionOut:
    """Return the version that an alias names now."""
    model, version = aliases.version_of(session, name, alias)
    return views.version_out(session, me, model, version)


@router.put("/models/{name}/aliases/{alias}")
def set_model_alias(
    name: Model, alias: Alias, body: AliasIn, session: Write, by: By
) -> ModelAliasOut:
    """Let an alias name a version. The move is kept with who made it, when and why."""
    return aliases.set_alias(session, name, alias, body.version, by, reason=body.reason)


@router.delete("/models/{name}/aliases/{alias}", status_code=204)
def delete_model_alias(
    name: Model,
    alias: Alias,
    session: Write,
    by: By,
    reason: Annotated[SafeStr, Query(max_length=500)] = "",
) -> None:
    """Remove an alias. Its history stays."""
    aliases.remove_alias(session, name, alias, by, reason=reason)


@router.get("/models/{name}/history")
def list_model_alias_moves(
    name: Model,
    session: Read,
    alias: Annotated[str | None, Query(pattern=ALIAS_NAME)] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[ModelAliasMoveOut]:
    """List the moves of a model's aliases, newest first."""
    return aliases.history(session, name, alias=alias, cursor=cursor, limit=limit)


@router.get("/models/{name}/promotions")
def list_model_promotions(
    name: Model, session: Read, cursor: Cursor = None, limit: Limit = 50
) -> Page[ModelPromotionOut]:
    """List the promotion rules of a model, newest first, with what became of them."""
    return promotions.list_rules(session, name, cursor=cursor, limit=limit)


@router.post("/models/{name}/promotions", status_code=201)
def create_model_promotion(
    name: Model, body: PromotionIn, session: Write, by: By
) -> ModelPromotionOut:
    """Let the best checkpoint of an experiment become an alias when the experiment has ended. The
    alias only ever moves to a better value."""
    return promotions.add_rule(session, name, body, by)


@router.delete("/models/{name}/promotions/{promotion_id}", status_code=204)
def delete_model_promotion(name: Model, promotion_id: Id, session: Write, by: By) -> None:
    """Delete a promotion rule. An alias that it has moved stays where it is."""
    promotions.delete_rule(session, name, promotion_id, by)


@router.post("/models/{name}/versions/{number}/files:fetch", status_code=202)
def fetch_model_file(
    name: Model, number: Number, body: ModelFetchIn, session: Write, by: By, settings: Config
) -> ModelFetchOut:
    """Have a part of a file read from the storage of the nodes, unless the server has it. Repeat it
    until it is ready."""
    version, file = fetching.find_file(session, name, number, body.path)
    return fetching.request(session, version, file, body.part, by, settings=settings)


@router.get(
    "/models/{name}/versions/{number}/files/content", **stream_of("application/octet-stream")
)
def download_model_file(
    name: Model,
    number: Number,
    request: Request,
    db: Db,
    path: Annotated[SafeStr, Query(min_length=1, max_length=PATH_MAX_CHARS)],
    export: Annotated[int | None, Query(ge=1, lt=2**31)] = None,
) -> StreamingResponse:
    """Download a file, or the part of it that was fetched as an export. A `Range` from a byte to the
    end continues a download that was cut off."""
    with db.read() as session:
        _, file = fetching.find_file(session, name, number, path)
        content = fetching.find_content(session, file, export_id=export)
    name = quote(path.rpartition("/")[2], safe="")
    return _streamed(request, db, content, disposition=f"attachment; filename*=utf-8''{name}")


def _streamed(
    request: Request, db: Database, content: fetching.Content, *, disposition: str = ""
) -> StreamingResponse:
    """Return the bytes, from where the request says that it continues."""
    start = _start(request, content)
    headers = {
        "Content-Length": str(content.size_bytes - start),
        "ETag": f'"{content.sha256}"',
        "Accept-Ranges": "bytes",
    }
    if disposition:
        headers["Content-Disposition"] = disposition
    if start:
        headers["Content-Range"] = f"bytes {start}-{content.size_bytes - 1}/{content.size_bytes}"
    return StreamingResponse(
        content.stream(db, start),
        status_code=206 if start else 200,
        media_type="application/octet-stream",
        headers=headers,
    )


def _start(request: Request, content: fetching.Content) -> int:
    """Return the byte from which on a file is wanted; 0 where the range is of another file, or not one
    from a byte to the end."""
    found = _RANGE.fullmatch(request.headers.get("range", ""))
    is_same = request.headers.get("if-range", f'"{content.sha256}"') == f'"{content.sha256}"'
    start = int(found[1]) if found and is_same else 0
    return start if start < content.size_bytes else 0


@router.get("/model-blobs/{sha256}")
def get_model_blob(sha256: Sha256, session: Read) -> ModelBlobOut:
    """Return how much of a file has arrived. 404 if nothing has."""
    return uploads.show(session, sha256)


@router.put(
    "/model-blobs/{sha256}",
    openapi_extra={"requestBody": {"content": {"application/octet-stream": {}}, "required": True}},
)
async def put_model_blob(
    sha256: Sha256,
    request: Request,
    db: Db,
    settings: Config,
    size_bytes: Annotated[int, Query(ge=0, lt=2**53, description="Size of the whole file.")],
    offset: Annotated[int, Query(ge=0, lt=2**53, description="Where this piece begins.")] = 0,
) -> ModelBlobOut:
    """Upload a piece of a file, of at most 8 MiB and a multiple of 1 MiB except the last one. After
    the last one its SHA-256 is verified."""
    data = await read_body(request, MODEL_PIECE_MAX_BYTES, "models.piece_too_large")
    if len(data) > size_bytes:
        raise InvalidRequest(
            "models.wrong_piece", f"A piece of {len(data):,} bytes of a file of {size_bytes:,}."
        )
    return await run_in_threadpool(
        uploads.add_piece,
        db,
        sha256,
        offset=offset,
        size_bytes=size_bytes,
        data=data,
        settings=settings,
        now=clock.now(),
    )


# ---------------------------------------------------------------- for agents


@agent_router.post("/allocations/{allocation_id}/models")
def agent_model_files(
    database: Db, agent: Agent, allocation_id: AllocationId, request: ModelFilesRequest
) -> ModelFilesReply:
    """The files of a version that a job of this node reads."""
    require_self(agent, request.node_id)
    with database.transaction() as session:
        identity.confirm_agent(session, agent)
        return agent_files.list_files(session, allocation_id, request)


@agent_router.post("/allocations/{allocation_id}/models/parts")
def agent_model_part(
    database: Db,
    config: Config,
    agent: Agent,
    allocation_id: AllocationId,
    request: ModelPartRequest,
) -> ModelPartReply:
    """Have a part of such a file read from the storage of the nodes, unless the server has it."""
    require_self(agent, request.node_id)
    with database.transaction() as session:
        identity.confirm_agent(session, agent)
        return agent_files.request_part(
            session, allocation_id, request, settings=config, now=clock.now()
        )


@agent_router.get(
    "/allocations/{allocation_id}/models/content", **stream_of("application/octet-stream")
)
def agent_model_content(
    http: Request,
    database: Db,
    agent: Agent,
    allocation_id: AllocationId,
    node_id: Annotated[str, Query(max_length=64)],
    session_epoch: int,
    attempt_no: int,
    name: Annotated[str, Query(max_length=64)],
    path: Annotated[SafeStr, Query(min_length=1, max_length=PATH_MAX_CHARS)],
    export: Annotated[int | None, Query(ge=1, lt=2**31)] = None,
) -> StreamingResponse:
    """Return the bytes of a part that is ready, with a `Range` from where an earlier answer broke
    off."""
    require_self(agent, node_id)
    wanted = ModelPartRequest(
        node_id=node_id,
        session_epoch=session_epoch,
        attempt_no=attempt_no,
        name=name,
        path=path,
        export_id=export,
    )
    with database.read() as session:
        content = agent_files.find_content(session, allocation_id, wanted)
    return _streamed(http, database, content)

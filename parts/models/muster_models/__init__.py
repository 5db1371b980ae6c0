"""Models: the registry, evaluation and deployments, a part of Muster (muster_server/parts.py)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from muster_server.parts import OptionalPart, Sweep, Worker

if TYPE_CHECKING:
    from fastapi import APIRouter
    from sqlalchemy.orm import Session

    from muster_server.db.engine import Database
    from muster_server.db.leases import Lease
    from muster_server.loops.base import Pass
    from muster_server.security.permissions import Permission
    from muster_server.services.core.callers import Caller
    from muster_server.services.nodes.records import RecordsCall, StoredRecords
    from muster_server.settings import Settings

PERMISSIONS: Mapping[str, Permission] = {
    # models: services/registry/models.py says who may change which
    "list_models": "view",
    "create_model": "submit",
    "get_model": "view",
    "update_model": "submit",
    "delete_model": "submit",
    "list_model_versions": "view",
    "list_experiment_model_versions": "view",
    "list_experiment_model_uses": "view",
    "list_model_version_uses": "view",
    "list_model_version_exports": "view",
    "get_model_lineage": "view",
    "list_model_leaderboards": "view",
    "register_model_version": "submit",
    "get_model_version": "view",
    "update_model_version": "submit",
    "delete_model_version": "submit",
    "get_model_alias": "view",
    "set_model_alias": "submit",
    "delete_model_alias": "submit",
    "list_model_alias_moves": "view",
    "list_model_promotions": "view",
    "create_model_promotion": "submit",
    "delete_model_promotion": "submit",
    "fetch_model_file": "view",
    "download_model_file": "view",
    "get_model_blob": "submit",
    "put_model_blob": "submit",
    # deployments: services/deployments/management.py says who may change which. The router lets in those
    # who hold `infer`
    "list_deployments": "view",
    "create_deployment": "submit",
    "get_deployment": "view",
    "get_deployment_address": "infer",
    "update_deployment": "submit",
    "roll_back_deployment": "submit",
    "scale_deployment": "submit",
    "stop_deployment": "submit",
    "delete_deployment": "submit",
    # agents
    "agent_model_files": "agent",
    "agent_model_part": "agent",
    "agent_model_content": "agent",
}


class Models(OptionalPart):
    """The registry of models and deployments."""

    name = "models"
    permissions = PERMISSIONS
    has_router = True
    modules = (
        "muster_models.api.deployments",
        "muster_models.api.models",
        "muster_models.loops.deployments",
        "muster_models.loops.registry",
    )

    def routers(self) -> Sequence[APIRouter]:
        from .api import deployments, models

        return (models.router, deployments.router)

    def agent_routers(self) -> Sequence[APIRouter]:
        from .api import models

        return (models.agent_router,)

    def loops(self, database: Database, settings: Settings) -> Sequence[Pass]:
        from .loops.deployments import DeploymentLoop
        from .loops.registry import RegistryLoop

        return (DeploymentLoop(database), RegistryLoop(database, settings))

    def workers(
        self, database: Database, lease: Callable[[], Lease | None], settings: Settings
    ) -> Mapping[str, Worker]:
        if settings.router_dir is None:
            return {}
        from .loops.deployments import RouterWorker

        return {"router": RouterWorker(database, lease, settings).run}

    def sweeps(self) -> Sequence[Sweep]:
        from .services.registry import uploads

        return (uploads.delete_unused,)

    def answered(
        self, session: Session, call: RecordsCall, stored: StoredRecords, now: dt.datetime
    ) -> StoredRecords:
        from .services.registry import within_jobs

        return within_jobs.answered(session, call, stored, now)

    def mlflow_answer(
        self,
        session: Session,
        caller: Caller,
        settings: Settings,
        method: str,
        path: str,
        body: Mapping[str, Any],
    ) -> dict[str, Any] | None:
        from .services.registry.mlflow import MlflowRegistry

        return MlflowRegistry(session, caller, settings).answer(method, path, body)

    def mlflow_file(
        self, database: Database, caller: Caller, path: str, settings: Settings
    ) -> tuple[int, Iterator[bytes]] | None:
        from .services.registry.mlflow import read_version

        return read_version(database, caller, path, settings)


PART = Models()

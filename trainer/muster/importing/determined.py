"""Experiment configurations of Determined as experiment documents. Pure.

Every key of Determined's configuration either becomes something, is dropped with a reason, or is an
error; none is passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from muster.document.common import MAX_SLOTS

from .determined_code import ModelFolder, add_entrypoint
from .determined_search import add_searcher, add_space
from .draft import ImportDraft

SCRIPT_ARGUMENT = "it is an argument of Determined's Trainer; scripts decide by themselves"
DROPPED = {
    "checkpoint_policy": SCRIPT_ARGUMENT,
    "data_layer": "jobs read data from where they are; name paths in `data`",
    "debug": "`muster logs` has every line of every process",
    "integrations": "jobs read data from where they are; name paths in `data`",
    "internal": "it is Determined's own",
    "min_checkpoint_period": SCRIPT_ARGUMENT,
    "min_validation_period": SCRIPT_ARGUMENT,
    "optimizations": "they are Determined's Trainer's; `strategy` has them for the built-in trainer: "
    "`accumulate`, `precision`, `compression`",
    "pbs": "Muster is the scheduler",
    "perform_initial_validation": SCRIPT_ARGUMENT,
    "profiling": "every training is measured; `muster profile` traces a running one",
    "records_per_epoch": SCRIPT_ARGUMENT,
    "retention_policy": "how long logs are kept is a setting of the server",
    "scheduling_unit": SCRIPT_ARGUMENT,
    "security": "Kerberos is not supported",
    "slurm": "Muster is the scheduler",
    "tensorboard_storage": "metrics are on the dashboard",
}
RESOURCES_DROPPED = {
    "agent_label": "name node labels with their values in `resources.labels`",
    "devices": "jobs are processes and see the devices of their slots",
    "native_parallel": "one worker runs on each slot",
    "shm_size": "`environment.shm_size` sets it for a job with `environment.image`",
    "slots": "it belongs to notebooks and commands; `slots_per_trial` is for experiments",
    "weight": "weights belong to projects: `muster project set`",
}
ENVIRONMENT_DROPPED = {
    "add_capabilities": "jobs get no further capabilities",
    "drop_capabilities": "the isolation of the node decides which capabilities jobs have",
    "force_pull_image": "`environment.pull_policy: always` pulls an `environment.image` each time",
    "image": "its images are for its own launcher; name one of yours in `environment.image`, or add "
    "packages to the nodes' Python with `environment.requirements`",
    "pod_spec": "jobs are no pods of Kubernetes",
    "ports": "`muster port` reaches a port of a running job",
    "proxy_ports": "`muster port` reaches a port of a running job",
    "registry_auth": "store it as a secret, and name that in `environment.registry_login`",
}
STORAGE_KEYS = [
    "access_key",
    "account_url",
    "bucket",
    "checkpoint_path",
    "connection_string",
    "container",
    "container_path",
    "credential",
    "endpoint_url",
    "host_path",
    "prefix",
    "propagation",
    "save_experiment_best",
    "save_trial_best",
    "save_trial_latest",
    "secret_key",
    "storage_path",
    "tensorboard_path",
    "type",
    "user",
]
STORAGE_TYPES = ("azure", "directory", "gcs", "s3", "shared_fs")
KEEP = {"save_trial_best": "best", "save_trial_latest": "last", "save_experiment_best": "experiment_best"}  # fmt: skip
KEEP_DEFAULTS = {"best": 1, "last": 1, "experiment_best": 0}
"""Numbers of checkpoints that both tools keep by default."""
DEFAULT_RESTARTS = 5
GRACE_MAX_S = 3600
SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|(?:^|_)KEY(?:$|_)", re.IGNORECASE
)


def import_determined(
    config: object,
    *,
    fallback_name: str = "imported",
    slot_type: str = "cuda",
    model: ModelFolder | None = None,
) -> ImportDraft:
    """Return the document of a configuration, as its file was parsed, with what became of each key.

    slot_type: kind of slot, which Determined's files do not say. model: what is known of the code.
    The document is complete only if there are no errors.
    """
    draft = ImportDraft()
    if not isinstance(config, Mapping):
        draft.error("", "the file holds no mapping of keys")
        return draft
    if "idle_timeout" in config:
        draft.error("idle_timeout", "this configures a notebook or a command, not an experiment")
        return draft
    keys = draft.mapping(config, "", {*_TRANSLATIONS, *DROPPED})
    draft.document["name"] = str(keys.get("name") or fallback_name)
    slots = _resources(draft, keys.get("resources"), slot_type)
    for key, translate in _TRANSLATIONS.items():
        if key in keys and translate is not None:
            translate(draft, keys[key])
    variables = (config.get("environment") or {}) if isinstance(config, Mapping) else {}
    _environment(draft, variables, draft.section("resources")["slot_type"])
    add_space(draft, keys.get("hyperparameters"))
    add_searcher(draft, keys.get("searcher"))
    _max_slots(draft, keys.get("resources"), slots)
    add_entrypoint(draft, keys.get("entrypoint"), slots, model)
    if "max_restarts" not in keys:
        _restarts(draft, DEFAULT_RESTARTS, why="Determined's default")
    for key, why in DROPPED.items():
        if key in keys:
            draft.dropped(key, why)
    order = ("name", "project", "labels", "notes", "entrypoint", "launcher", "code", "data")
    draft.document = {
        key: draft.document[key]
        for key in (*order, *(k for k in draft.document if k not in order))
        if draft.document.get(key) not in ({}, None)
    }
    return draft


def _name(draft: ImportDraft, value: Any) -> None:
    draft.became("name", f"name: {value}")


def _description(draft: ImportDraft, value: Any) -> None:
    draft.document["notes"] = str(value)
    draft.became("description", "notes")


def _labels(draft: ImportDraft, value: Any) -> None:
    if not isinstance(value, list):
        draft.error("labels", f"{value!r} is not a list of labels")
        return
    draft.document["labels"] = {str(label): "" for label in value}
    draft.became("labels", f"labels: {', '.join(map(str, value))}", "without values")


def _workspace(draft: ImportDraft, value: Any) -> None:
    draft.document["project"] = _project_name(str(value))
    draft.became("workspace", f"project: {draft.document['project']}", "there are no workspaces")


def _project(draft: ImportDraft, value: Any) -> None:
    workspace = draft.document.get("project")
    name = _project_name(str(value))
    draft.document["project"] = f"{workspace} {name}" if workspace else name
    draft.became("project", f"project: {draft.document['project']}")


def _project_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9 ._-]+", "-", text).lstrip(" ._-") or "default"


def _restarts(draft: ImportDraft, value: Any, why: str = "any failure of the job counts") -> None:
    number = draft.number(value, "max_restarts")
    if number is not None:
        draft.section("restarts")["user"] = int(number)
        draft.became("max_restarts", f"restarts.user: {int(number)}", why)


def _grace(draft: ImportDraft, value: Any) -> None:
    number = draft.number(value, "preemption_timeout")
    if number is not None:
        seconds = min(int(number), GRACE_MAX_S)
        draft.document["stop_grace_s"] = seconds
        why = f"{GRACE_MAX_S} is the longest" if seconds != number else ""
        draft.became("preemption_timeout", f"stop_grace_s: {seconds}", why)


def _reproducibility(draft: ImportDraft, value: Any) -> None:
    keys = draft.mapping(value, "reproducibility", ("experiment_seed",))
    if (seed := keys.get("experiment_seed")) is not None:
        draft.section("search")["seed"] = seed
        draft.became("reproducibility.experiment_seed", f"search.seed: {seed}")


def _data(draft: ImportDraft, value: Any) -> None:
    variables = draft.section("environment").setdefault("variables", {})
    variables["DET_USER_DATA"] = json.dumps(value)
    draft.became(
        "data",
        "environment.variables.DET_USER_DATA",
        "det_compat gives it to get_cluster_info().user_data",
    )


def _bind_mounts(draft: ImportDraft, value: Any) -> None:
    if not isinstance(value, list):
        draft.error("bind_mounts", f"{value!r} is not a list")
        return
    data = draft.section("data")
    for i, mount in enumerate(value):
        key = f"bind_mounts.{i}"
        found = draft.mapping(
            mount, key, ("host_path", "container_path", "read_only", "propagation")
        )
        place, seen = found.get("host_path"), found.get("container_path")
        if not isinstance(place, str) or not place.startswith("/"):
            draft.error(f"{key}.host_path", f"{place!r} is not an absolute path")
            continue
        name = re.sub(r"\W+", "_", place.strip("/").rpartition("/")[2]).strip("_") or "mount"
        name = name if name[0].isalpha() and name not in data else f"mount_{i}"
        data[name] = place
        draft.became(
            key,
            f"data.{name}: {place}",
            "jobs see the node's paths; a node without this one is not used"
            if seen in (None, place)
            else f"there are no containers: read {place} or MUSTER_DATA_{name.upper()} instead of "
            f"{seen}",
        )


def _log_policies(draft: ImportDraft, value: Any) -> None:
    if not isinstance(value, list):
        draft.error("log_policies", f"{value!r} is not a list")
        return
    for i, policy in enumerate(value):
        found = draft.mapping(policy, f"log_policies.{i}", ("name", "pattern", "action"))
        action = found.get("action")
        kind = action.get("type") if isinstance(action, Mapping) else action
        reasons = {
            "exclude_node": "a node whose jobs fail again and again is put into quarantine",
            "cancel_retries": "restarts.user counts restarts; out of memory is told apart anyway",
        }
        draft.dropped(
            f"log_policies.{i}", reasons.get(str(kind), "labels are not set by what a job logs")
        )


def _checkpoint_storage(draft: ImportDraft, value: Any) -> None:
    keys = draft.mapping(value, "checkpoint_storage", STORAGE_KEYS)
    kept = {KEEP[key]: keys[key] for key in KEEP if key in keys}
    if kept:
        draft.section("checkpoints")["keep"] = {**KEEP_DEFAULTS, **kept}
        shown = ", ".join(f"{name}: {number}" for name, number in kept.items())
        draft.became("checkpoint_storage", f"checkpoints.keep: {{{shown}}}")
    if "type" not in keys:
        return
    kind = draft.choice(keys["type"], "checkpoint_storage.type", STORAGE_TYPES)
    if kind in ("s3", "gcs"):
        if not isinstance(keys.get("bucket"), str):
            draft.error("checkpoint_storage.bucket", "it is needed")
            return
        scheme = "s3" if kind == "s3" else "gs"
        prefix = str(keys.get("prefix") or "").strip("/") or "checkpoints"
        place = f"{scheme}://{keys['bucket']}/{prefix}"
        draft.section("checkpoints")["storage"] = place
        draft.became("checkpoint_storage.type", f"checkpoints.storage: {place}")
    elif kind == "azure":
        draft.dropped(
            "checkpoint_storage.type",
            "Azure is not supported: checkpoints stay in the agents' storage folder",
        )
    elif kind is not None:
        folder = keys.get("host_path") or keys.get("container_path") or "the shared folder"
        draft.became(
            "checkpoint_storage.type",
            "checkpoints.storage: local",
            f"the agents' storage folder; share one with `--storage-dir {folder}`",
        )
    for key in ("access_key", "secret_key", "credential", "connection_string", "endpoint_url"):
        if key in keys:
            draft.dropped(
                f"checkpoint_storage.{key}", "it belongs into the environment of the nodes"
            )


def _resources(draft: ImportDraft, value: Any, slot_type: str) -> int:
    """Add what a trial needs; return its number of slots."""
    keys = draft.mapping(
        value,
        "resources",
        ("slots_per_trial", "resource_pool", "priority", "max_slots", "is_single_node",
         *RESOURCES_DROPPED),
    )  # fmt: skip
    found = draft.section("resources")
    number = draft.number(keys.get("slots_per_trial", 1), "resources.slots_per_trial")
    slots = 1 if number is None else int(number)
    if not 0 <= slots <= MAX_SLOTS:
        draft.error("resources.slots_per_trial", f"{slots} is not between 0 and {MAX_SLOTS}")
        slots = 1
    found["slots"] = max(1, slots)
    found["slot_type"] = "cpu" if slots == 0 else slot_type
    became = f"resources: {{slots: {max(1, slots)}, slot_type: {found['slot_type']}}}"
    if "slots_per_trial" in keys:
        why = "no accelerator" if slots == 0 else "--slot-type says which kind"
        draft.became("resources.slots_per_trial", became, why)
    if (pool := keys.get("resource_pool")) is not None:
        found["pool"] = str(pool)
        draft.became("resources.resource_pool", f"resources.pool: {pool}")
    if (priority := keys.get("priority")) is not None:
        known = draft.number(priority, "resources.priority")
        if known is not None:
            found["priority"] = min(100, max(0, 100 - int(known)))
            draft.became(
                "resources.priority",
                f"resources.priority: {found['priority']}",
                "there 1 is the most urgent, here 100",
            )
    if keys.get("is_single_node"):
        found["nodes"] = 1
        draft.became("resources.is_single_node", "resources.nodes: 1")
    for key, why in RESOURCES_DROPPED.items():
        if key in keys:
            draft.dropped(f"resources.{key}", why)
    return max(1, slots)


def _max_slots(draft: ImportDraft, value: Any, slots: int) -> None:
    """Add the limit of slots that a search may use; it comes after the searcher."""
    most = value.get("max_slots") if isinstance(value, Mapping) else None
    if most is None:
        return
    number = draft.number(most, "resources.max_slots")
    if number is None:
        return
    if draft.section("search").get("method", "single") == "single":
        draft.dropped("resources.max_slots", "a single trial has the slots that it asks for")
        return
    at_once = max(1, int(number) // slots)
    search = draft.section("search")
    search["concurrent"] = min(at_once, search.get("concurrent") or at_once)
    draft.became(
        "resources.max_slots",
        f"search.concurrent: {search['concurrent']}",
        f"{number} slots at {slots} per trial",
    )


def _environment(draft: ImportDraft, value: Any, slot_type: str) -> None:
    keys = draft.mapping(value, "environment", ("environment_variables", *ENVIRONMENT_DROPPED))
    given = keys.get("environment_variables")
    if isinstance(given, Mapping):
        kinds = draft.mapping(
            given, "environment.environment_variables", ("cpu", "cuda", "gpu", "rocm")
        )
        given = kinds.get(slot_type) or (kinds.get("gpu") if slot_type == "cuda" else None) or []
    variables: dict[str, str] = {}
    for line in given if isinstance(given, list) else [given] if given else []:
        name, equals, text = str(line).partition("=")
        key = f"environment.environment_variables.{name}"
        if not equals:
            draft.dropped(key, "it has no value; jobs do not get the variables of your shell")
            continue
        variables[name] = text
        hint = "a secret of this name keeps it out of the document: `muster secret set`"
        draft.became(key, f"environment.variables.{name}", hint if SECRET_NAME.search(name) else "")
    if variables:
        section = draft.section("environment")
        section["variables"] = {**section.get("variables", {}), **variables}
    for key, why in ENVIRONMENT_DROPPED.items():
        if key in keys:
            draft.dropped(f"environment.{key}", why)


_TRANSLATIONS: Mapping[str, Callable[[ImportDraft, Any], None] | None] = {
    "name": _name,
    "workspace": _workspace,
    "project": _project,
    "description": _description,
    "labels": _labels,
    "max_restarts": _restarts,
    "preemption_timeout": _grace,
    "reproducibility": _reproducibility,
    "data": _data,
    "bind_mounts": _bind_mounts,
    "log_policies": _log_policies,
    "checkpoint_storage": _checkpoint_storage,
    "resources": None,
    "environment": None,
    "hyperparameters": None,
    "searcher": None,
    "entrypoint": None,
}
"""Keys that are translated; None for those that have an order among each other."""

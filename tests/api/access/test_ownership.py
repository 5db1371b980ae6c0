"""Every route that changes something of somebody else's refuses another member, now and later."""

import pytest

from muster_server.db.models import ExperimentRow, ExportRow
from support.client import plain_app

NOT_OF_ANOTHER = {
    "create_experiment": "makes one of the caller's",
    "create_schedule": "makes one of the caller's",
    "preview_experiment": "keeps nothing",
    "create_plan": "keeps nothing",
    "fork_experiment": "makes one of the caller's; everybody may read",
    "diagnose_trial": "its probes are an experiment of the caller's",
    "apply_diagnosis": "makes an experiment of the caller's",
    "request_export": "a copy to read, as everybody may",
    "create_report": "names a project: test_reports",
    "update_report": "the members of its project write a report together: test_reports",
    "freeze_report": "the members of its project write a report together: test_reports",
    "unfreeze_report": "the members of its project write a report together: test_reports",
    "create_report_comment": "the members of its project comment a report: test_reports",
    "set_secret": "the caller's own",
    "delete_secret": "the caller's own",
    "set_project_secret": "names a project: test_secrets",
    "delete_project_secret": "names a project: test_secrets",
    "create_notification_target": "makes one of the caller's",
    "update_notification_target": "hides those of others: test_notifications",
    "delete_notification_target": "hides those of others: test_notifications",
    "test_notification_target": "hides those of others: test_notifications",
    "create_panel": "makes one of the caller's, which the owner of the experiment may delete",
    "create_model": "makes one of the caller's",
    "create_deployment": "makes one of the caller's; a name that another has: test_deployments",
    "get_model_blob": "under the digest of its content",
    "put_model_blob": "under the digest of its content",
    "put_blob": "under the digest of its content",
    "head_blob": "reads",
    "preview_bulk": "keeps nothing, and says for each whether it is refused",
    "run_bulk": "refuses each by itself: test_bulk",
    "move_in_queue": "names what it moves in the body: test_queue",
    "open_tunnel": "a WebSocket: test_tunnels",
    "set_project_user": "names a project: test_project_members",
    "remove_project_user": "names a project: test_project_members",
    "set_project_group": "names a project: test_project_members",
    "remove_project_group": "names a project: test_project_members",
    "mlflow_log_batch": "names the run in the body: test_mlflow",
    "mlflow_log_metric": "names the run in the body: test_mlflow",
    "mlflow_write": "names the run in the body: test_mlflow",
    "mlflow_put_artifact": "names the run within a path: test_mlflow",
    "mlflow_delete_artifact": "names the run within a path: test_mlflow",
}
"""Why the others that members may call need no owner."""
BODIES = {
    "update_experiment": {"name": "mine"},
    "continue_experiment": {},
    "set_experiment_budget": {"slot_hours": 1.0},
    "set_search_limits": {"concurrent": 1},
    "enqueue_trial": {"hparams": {}},
    "ask_search": {},
    "tell_search": {"no": 1, "metrics": {"loss": 1.0}},
    "clean_checkpoints": {},
    "clean_outputs": {"older_than_days": 1},
    "create_scaling_report": {"slots": [1]},
    "profile_trial": {},
    "keep_trial": {"hours": 1.0},
    "update_schedule": {"is_paused": True},
    "create_report_link": {"days": 1},
    "update_panel": {"title": "mine"},
    "update_model": {"description": "mine"},
    "register_model_version": {"checkpoint_id": 1},
    "update_model_version": {"notes": "mine"},
    "set_model_alias": {"version": 1},
    "update_deployment": {"model": "net:1"},
    "roll_back_deployment": {},
    "scale_deployment": {"replicas": 1},
    "stop_deployment": {},
    "delete_deployment": {},
    "create_model_promotion": {
        "experiment_id": 1,
        "alias": "best",
        "metric": "loss",
        "goal": "min",
    },
}
"""Those that need a body that can be read before the owner is looked at."""

OPERATIONS = [
    operation
    for operation in plain_app().state.operations
    if operation.permission == "submit" and operation.id not in NOT_OF_ANOTHER
]


def call(client, operation, ids):
    (method,) = operation.methods - {"HEAD"}
    body = BODIES.get(operation.id)
    return client.request(method, operation.path.format(**ids), json=body)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_another_member_may_not(theirs, connect, make_user_token, operation):
    eve = connect(token=make_user_token("member", username="eve"))
    reply = call(eve, operation, theirs)
    assert reply.status_code == 403, reply.text
    assert reply.json()["error"]["code"].endswith(".not_yours")


@pytest.mark.parametrize("who", ["ada", "admin"])
def test_who_asked_for_it_and_administrators_may(theirs, connect, make_user_token, database, who):
    role = "admin" if who == "admin" else "member"
    client = connect(token=make_user_token(role, username=who))
    assert client.delete(f"/api/v1/exports/{theirs['export_id']}").status_code == 204
    path = f"/api/v1/diagnoses/{theirs['diagnosis_id']}:cancel"
    assert client.post(path).json()["state"] == "canceled"
    with database.read() as session:
        assert session.get(ExportRow, theirs["export_id"]) is None


def test_the_owner_of_the_experiment_may_delete_an_export_of_another(
    theirs, connect, make_user_token, database
):
    with database.transaction() as session:
        session.get_one(ExportRow, theirs["export_id"]).requested_by = "token:9 (eve)"
        session.get_one(ExperimentRow, theirs["experiment_id"])
    for who, status in (("ev", 403), ("ada", 204)):
        client = connect(token=make_user_token("member", username=who))
        assert client.delete(f"/api/v1/exports/{theirs['export_id']}").status_code == status

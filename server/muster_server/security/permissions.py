"""The one table of who may call what: operation id → permission. Parts add their operations (parts.py).

Everything is denied that is not in it. The route check, the documentation and the tests are all
made from it; a route without an entry stops the server from starting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Permission = Literal[
    "public", "metrics", "infer", "view", "submit", "admin", "self", "agent", "join", "provision"
]
"""Right that a caller needs for an operation.

`public` needs none; `self` is any signed-in user, about themselves. `view`, `submit` and `admin`
depend on the role (see ROLES). `metrics` is monitoring, the only right of a token of the role metrics. `infer` is to send requests to
deployments, the only right of a token of the role predict.
`agent` needs an agent's credential, and `join` a join token or an agent's credential. `provision` needs the
token of MUSTER_SCIM_TOKEN, which has no other right."""

ROLES: Mapping[str, frozenset[Permission]] = {
    "metrics": frozenset({"public", "metrics"}),
    "predict": frozenset({"public", "infer"}),
    "viewer": frozenset({"public", "metrics", "self", "view"}),
    "member": frozenset({"public", "metrics", "self", "view", "submit", "infer"}),
    "admin": frozenset({"public", "metrics", "self", "view", "submit", "infer", "admin"}),
    "agent": frozenset({"public", "agent", "join"}),
    "join": frozenset({"public", "join"}),
    "scim": frozenset({"public", "provision"}),
}

PERMISSIONS: Mapping[str, Permission] = {
    # health
    "healthz": "public",
    "readyz": "public",
    "get_prometheus_metrics": "metrics",
    # auth
    "get_auth_state": "public",
    "setup": "public",
    "login": "public",
    "one_time_sign_in": "public",
    "start_openid": "public",
    "finish_openid": "public",
    "connect_openid": "self",
    "logout_openid": "self",
    "begin_second_factor": "self",
    "confirm_second_factor": "self",
    "switch_off_second_factor": "self",
    "remove_second_factor": "admin",
    "create_device_login": "public",
    "create_device_token": "public",
    "get_device_login": "self",
    "approve_device_login": "self",
    "deny_device_login": "self",
    "logout": "self",
    "get_me": "self",
    "change_password": "self",
    "list_tokens": "self",
    "create_token": "self",
    "revoke_token": "self",
    "list_sessions": "self",
    "end_session": "self",
    "create_live_ticket": "self",
    "live": "view",
    "open_tunnel": "submit",
    "list_users": "admin",
    "create_user": "admin",
    "update_user": "admin",
    "list_user_tokens": "admin",
    "create_user_token": "admin",
    "list_user_sessions": "admin",
    "list_join_tokens": "admin",
    "create_join_token": "admin",
    "revoke_join_token": "admin",
    "list_audit": "admin",
    # cluster
    "get_catalog": "view",
    "get_cluster": "view",
    "get_cluster_utilization": "view",
    "list_nodes": "view",
    "get_node": "view",
    "update_node": "admin",
    "release_node": "admin",
    "remove_node": "admin",
    "list_node_events": "view",
    "list_node_allocations": "view",
    "get_node_system_metrics": "view",
    "list_maintenance": "view",
    "create_maintenance": "admin",
    "end_maintenance": "admin",
    "create_preflight": "admin",
    "list_preflights": "view",
    "get_preflight": "view",
    "list_queue": "view",
    "move_in_queue": "submit",
    # experiments
    "create_experiment": "submit",
    "preview_experiment": "submit",
    "create_plan": "submit",
    "list_experiments": "view",
    "list_experiment_columns": "view",
    "count_experiments": "view",
    "get_document_schema": "view",
    "group_experiments": "view",
    "get_experiment": "view",
    "update_experiment": "submit",
    # operations: services/core/ownership.py says who may do them to which experiment
    "pause_experiment": "submit",
    "resume_experiment": "submit",
    "stop_experiment": "submit",
    "kill_experiment": "submit",
    "close_experiment": "submit",
    "continue_experiment": "submit",
    "fork_experiment": "submit",
    "archive_experiment": "submit",
    "unarchive_experiment": "submit",
    "preview_deletion": "view",
    "delete_experiment": "submit",
    "set_experiment_budget": "submit",
    "set_search_limits": "submit",
    "enqueue_trial": "submit",
    "get_search_point": "view",
    "close_search": "submit",
    "ask_search": "submit",
    "tell_search": "submit",
    "list_experiment_children": "view",
    "preview_bulk": "submit",
    "run_bulk": "submit",
    "preview_checkpoint_cleaning": "view",
    "clean_checkpoints": "submit",
    "preview_outputs_cleaning": "view",
    "clean_outputs": "submit",
    "pin_checkpoint": "submit",
    "unpin_checkpoint": "submit",
    "request_export": "submit",
    "list_trial_exports": "view",
    "get_export": "view",
    "download_export": "view",
    "delete_export": "submit",
    "list_deletions": "view",
    "dismiss_deletion": "admin",
    "get_retention": "admin",
    "get_retention_forecast": "admin",
    # scaling reports
    "create_scaling_report": "submit",
    "list_scaling_reports": "view",
    "get_scaling_report": "view",
    "export_scaling_report": "view",
    "cancel_scaling_report": "submit",
    # projects and pools
    "list_projects": "view",
    "create_project": "admin",
    "get_project": "view",
    "update_project": "admin",
    "delete_project": "admin",
    "list_project_events": "view",
    # members: domain/access.py says who may do what in which project
    "list_project_members": "view",
    "set_project_user": "submit",
    "remove_project_user": "submit",
    "set_project_group": "submit",
    "remove_project_group": "submit",
    "list_groups": "view",
    "set_group": "admin",
    "delete_group": "admin",
    "list_group_members": "view",
    "add_group_member": "admin",
    "remove_group_member": "admin",
    "list_pools": "view",
    "set_pool": "admin",
    "delete_pool": "admin",
    "get_pool_provider": "view",
    "set_pool_provider": "admin",
    "delete_pool_provider": "admin",
    "list_pilots": "view",
    "list_experiment_trials": "view",
    "list_experiment_figures": "view",
    "list_experiment_events": "view",
    "get_experiment_search": "view",
    "get_search_results": "view",
    "get_search_importance": "view",
    "get_experiment_series": "view",
    # saved views: everybody's own, and those that are shared with a project
    "list_saved_views": "self",
    "create_saved_view": "self",
    "update_saved_view": "self",
    "delete_saved_view": "self",
    # what somebody has dismissed from the overview
    "list_dismissals": "self",
    "create_dismissal": "self",
    "delete_dismissal": "self",
    # panels of experiments and projects; who added one, the owner and administrators change it
    "list_panels": "view",
    "create_panel": "submit",
    "update_panel": "submit",
    "delete_panel": "submit",
    # secrets: everybody's own, and those of projects for their members; maintainers set them
    "list_secrets": "self",
    "set_secret": "submit",
    "delete_secret": "submit",
    "list_project_secrets": "view",
    "set_project_secret": "submit",
    "delete_project_secret": "submit",
    # notifications: everybody's own; services/notifications/owners.py says who changes a project's
    "get_notification_options": "self",
    "list_inbox": "self",
    "count_inbox": "self",
    "read_inbox": "self",
    "list_notification_rules": "self",
    "create_notification_rule": "self",
    "update_notification_rule": "self",
    "delete_notification_rule": "self",
    "list_notification_targets": "self",
    "create_notification_target": "submit",
    "update_notification_target": "submit",
    "delete_notification_target": "submit",
    "test_notification_target": "submit",
    "list_notification_deliveries": "self",
    # trials
    "get_trial": "view",
    "get_trial_reproduction": "view",
    "get_trial_system_metrics": "view",
    "try_guards": "view",
    "stop_trial": "submit",
    "kill_trial": "submit",
    "promote_trial": "submit",
    "list_trial_workers": "view",
    "list_trial_groups": "view",
    "get_trial_performance": "view",
    "get_trial_goodput": "view",
    "get_goodput": "view",
    "export_goodput": "view",
    "get_trial_pipeline_step": "view",
    "get_trial_progress": "view",
    "diagnose_trial": "submit",
    "list_trial_diagnoses": "view",
    "get_diagnosis": "view",
    "cancel_diagnosis": "submit",
    "apply_diagnosis": "submit",
    "keep_trial": "submit",
    "ask_trial_stacks": "submit",
    "get_trial_stacks": "view",
    "get_trial_plan": "view",
    "profile_trial": "submit",
    "list_trial_profiles": "view",
    "get_trial_profile": "view",
    "get_trial_profile_summary": "view",
    "download_trial_trace": "view",
    "list_trial_checkpoints": "view",
    "list_checkpoints": "view",
    "list_trial_evaluations": "view",
    "list_tracked_runs": "view",
    "list_trial_events": "view",
    "list_trial_metrics": "view",
    "get_trial_series": "view",
    "export_trial_series": "view",
    "export_trial_series_lines": "view",
    "export_trial_series_parquet": "view",
    "list_curves": "view",
    "list_trial_log_lines": "view",
    "get_trial_log_histogram": "view",
    "preview_trial_log_values": "view",
    "get_experiment_log_histogram": "view",
    "list_experiment_log_lines": "view",
    "list_trial_log_streams": "view",
    "download_trial_log": "view",
    # MLflow's tracking API, for clients outside a job
    "mlflow_read": "view",
    "mlflow_search": "view",
    "mlflow_write": "submit",
    "mlflow_list_artifacts": "view",
    "mlflow_get_artifact": "view",
    "mlflow_put_artifact": "submit",
    "mlflow_delete_artifact": "submit",
    "mlflow_elsewhere": "view",
    # SCIM, for the provisioning client of an identity provider
    "scim_read": "provision",
    "scim_write": "provision",
    # outputs: whoever may read a trial's log may read its files
    "list_outputs": "view",
    "get_outputs_summary": "view",
    "request_outputs_export": "view",
    "request_outputs_preview": "view",
    "get_outputs_preview": "view",
    # media: the same holds for what it logs
    "list_media_series": "view",
    "list_media": "view",
    "fetch_media_content": "view",
    "get_media_content": "view",
    # code
    "put_blob": "submit",
    "head_blob": "submit",
    # agents
    "agent_register": "join",
    "agent_lease": "agent",
    "agent_leave": "agent",
    "agent_assignments": "agent",
    "agent_records": "agent",
    "agent_logs": "agent",
    "agent_get_blob": "agent",
    "agent_deletions": "agent",
    "agent_export_piece": "agent",
    "agent_descriptions": "agent",
    "agent_exports": "agent",
    "agent_tunnel": "agent",
    "agent_outputs": "agent",
    "agent_work_folders": "agent",
    "agent_preflights": "agent",
    "agent_secrets": "agent",
    # description of the API
    "openapi": "self",
    "docs": "self",
    # the built dashboard: files everybody may have, no data
    "dashboard": "public",
}


BEYOND_PROJECTS = frozenset(
    {
        "change_password",
        "create_dismissal",
        "delete_dismissal",
        "end_session",
        "list_sessions",
        "read_inbox",
        "set_secret",
        "delete_secret",
    }
)
"""Operations on what belongs to a user and to no project. A token that is limited to projects does none
of them, and none that needs `admin` or `metrics`. Where an operation is on either, its service asks
`access.require_unlimited`."""


def concerns_projects(operation_id: str, permission: Permission) -> bool:
    """Return whether an operation is one for tokens that are limited to projects."""
    return permission not in ("admin", "metrics") and operation_id not in BEYOND_PROJECTS


def allows(role: str, permission: Permission) -> bool:
    """Return whether a caller of this role holds the permission; an unknown role holds none."""
    return permission in ROLES.get(role, frozenset())

"""The one table of who may call what: operation id → permission.

Everything is denied that is not in it. The route check, the documentation and the tests are all
made from it; a route without an entry stops the server from starting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Permission = Literal["public", "metrics", "view", "submit", "admin", "self", "agent", "join"]
"""Right that a caller needs for an operation.

`public` needs none; `self` is any signed-in user, about themselves. `view`, `submit` and `admin`
depend on the role (see ROLES). `metrics` is monitoring, the only right of a token of the role metrics.
`agent` needs an agent's credential, and `join` a join token or an agent's credential."""

ROLES: Mapping[str, frozenset[Permission]] = {
    "metrics": frozenset({"public", "metrics"}),
    "viewer": frozenset({"public", "metrics", "self", "view"}),
    "member": frozenset({"public", "metrics", "self", "view", "submit"}),
    "admin": frozenset({"public", "metrics", "self", "view", "submit", "admin"}),
    "agent": frozenset({"public", "agent", "join"}),
    "join": frozenset({"public", "join"}),
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
    "logout": "self",
    "get_me": "self",
    "change_password": "self",
    "list_tokens": "self",
    "create_token": "self",
    "revoke_token": "self",
    "create_live_ticket": "self",
    "live": "view",
    "open_tunnel": "submit",
    "list_users": "admin",
    "create_user": "admin",
    "update_user": "admin",
    "list_join_tokens": "admin",
    "create_join_token": "admin",
    "revoke_join_token": "admin",
    "list_audit": "admin",
    # cluster
    "get_cluster": "view",
    "list_nodes": "view",
    "get_node": "view",
    "update_node": "admin",
    "release_node": "admin",
    "remove_node": "admin",
    "list_node_events": "view",
    "list_node_allocations": "view",
    "get_node_system_metrics": "view",
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
    "get_experiment": "view",
    "update_experiment": "submit",
    # operations: services/core/ownership.py says who may do them to which experiment
    "pause_experiment": "submit",
    "resume_experiment": "submit",
    "stop_experiment": "submit",
    "kill_experiment": "submit",
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
    "list_pools": "view",
    "set_pool": "admin",
    "delete_pool": "admin",
    "list_experiment_trials": "view",
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
    # secrets: everybody's own, and those of projects
    "list_secrets": "self",
    "set_secret": "submit",
    "delete_secret": "submit",
    "list_project_secrets": "view",
    "set_project_secret": "admin",
    "delete_project_secret": "admin",
    # trials
    "get_trial": "view",
    "stop_trial": "submit",
    "kill_trial": "submit",
    "promote_trial": "submit",
    "list_trial_workers": "view",
    "list_trial_groups": "view",
    "get_trial_performance": "view",
    "get_trial_pipeline_step": "view",
    "get_trial_progress": "view",
    "diagnose_trial": "submit",
    "list_trial_diagnoses": "view",
    "get_diagnosis": "view",
    "cancel_diagnosis": "submit",
    "apply_diagnosis": "submit",
    "ask_trial_stacks": "submit",
    "get_trial_stacks": "view",
    "get_trial_plan": "view",
    "profile_trial": "submit",
    "list_trial_profiles": "view",
    "get_trial_profile": "view",
    "download_trial_trace": "view",
    "list_trial_checkpoints": "view",
    "list_checkpoints": "view",
    "list_trial_evaluations": "view",
    "list_trial_events": "view",
    "list_trial_metrics": "view",
    "get_trial_series": "view",
    "export_trial_series": "view",
    "export_trial_series_lines": "view",
    "export_trial_series_parquet": "view",
    "list_curves": "view",
    "list_trial_log_lines": "view",
    "get_trial_log_histogram": "view",
    "get_experiment_log_histogram": "view",
    "list_experiment_log_lines": "view",
    "list_trial_log_streams": "view",
    "download_trial_log": "view",
    # outputs: whoever may read a trial's log may read its files
    "list_outputs": "view",
    "get_outputs_summary": "view",
    "request_outputs_export": "view",
    "request_outputs_preview": "view",
    "get_outputs_preview": "view",
    # code
    "put_blob": "submit",
    "head_blob": "submit",
    # agents
    "agent_register": "join",
    "agent_lease": "agent",
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


def allows(role: str, permission: Permission) -> bool:
    """Return whether a caller of this role holds the permission; an unknown role holds none."""
    return permission in ROLES.get(role, frozenset())

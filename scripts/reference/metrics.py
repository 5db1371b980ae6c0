"""docs/reference/metrics.md, from the list of metrics."""

from __future__ import annotations

from muster_server.telemetry.families import FAMILIES, NODES_MAX, POOLS_MAX, Family

HEAD = """\
# Metrics for Prometheus

Every process of the control plane answers `GET /metrics` in Prometheus' text format: the API server
on its port, a controller on `MUSTER_CONTROLLER_PORT` and a Celery worker on `MUSTER_WORKER_PORT`,
where these are set. Metrics of single trainings are not here; they are in the [REST service](rest-api.md).

Scraping needs a token. Make one that can do nothing else, and give Prometheus the file:

```bash
muster token create prometheus --role metrics --days 3650 > muster-token
```

```yml
scrape_configs:
  - job_name: muster
    authorization: {{credentials_file: muster-token}}
    static_configs:
      - targets: ["muster.example:8470"]
```

The token is checked in the database, and believed without it for ten minutes when the database is
away: `muster_database_up` then says 0. Figures of the cluster are counted at most every 5 s, however
many scrape.

Labels take values from fixed lists only, except `pool`: the first {pools} by name, the others as
`(other)`; and `node`, `interface` and `gpu`: of the first {nodes} nodes by name. `route` is a route's template, never an address. Beside these, every process has the
usual `process_*` and `python_*` metrics.
"""
ALERTS = """
## What to alert on

`deploy/monitoring/alerts.yml` has these rules for Prometheus, and `deploy/monitoring/grafana/muster.json` is a
dashboard for Grafana: import it and choose your Prometheus.

| when | because |
| --- | --- |
| `up{job="muster"} == 0` for 2 min | an API server does not answer |
| `max(muster_database_up) == 0` for 1 min | nothing can be stored; agents keep what they have |
| `max(muster_controller_led) == 0` for 1 min | nothing is scheduled or restarted |
| `increase(muster_controller_epoch[10m]) > 5` | controllers fight for the lead, or one keeps dying |
| `max(muster_worker_alive) == 0` for 5 min | metrics are no longer compacted, and pages become slower |
| `max(muster_nodes{state="LOST"}) > 0` for 5 min | a node is gone with its slots |
| `min by (node) (muster_node_disk_free_bytes) < 10e9` for 5 min | checkpoints and logs of that node soon have no room |
| `max(muster_queue_oldest_wait_seconds) > 3600` | somebody waits too long; `muster show` says for what |
| `histogram_quantile(0.95, sum by (le) (rate(muster_http_request_duration_seconds_bucket{route!~"/agent/v1/assignments"}[5m]))) > 1` for 10 min | answers are slow |
| `time() - max(muster_last_backup_timestamp_seconds) > 93600` | there was no backup for 26 hours |
| `max(muster_database_up) == 1 unless max(muster_last_backup_timestamp_seconds)` for 2 days | there never was a backup |
"""
SECTIONS: tuple[tuple[str, str], ...] = (
    ("Every process", "everywhere"),
    ("API server", "server"),
    ("The cluster", "cluster"),
    ("Each node", "node"),
    ("Controller", "controller"),
    ("Celery worker", "worker"),
)
NOTES = {
    "cluster": "From the database, so every API server says the same: use `max` over them, not `sum`.\n\n",
    "node": "As it said with its last heartbeat, while it is ONLINE; a node that is lost says nothing. What a\n"
    "node does not tell, and a device's figures where there is none, is absent. From the database too.\n\n",
}


def render() -> str:
    parts = [HEAD.format(pools=POOLS_MAX, nodes=NODES_MAX)]
    for title, section in SECTIONS:
        rows = [_row(family) for family in FAMILIES if _section(family) == section]
        parts.append(
            f"\n## {title}\n\n{NOTES.get(section, '')}"
            "| metric | type | labels | what it is |\n| --- | --- | --- | --- |\n"
            + "\n".join(rows)
            + "\n"
        )
    return "".join(parts) + ALERTS


def _section(family: Family) -> str:
    if family.is_of_the_cluster:
        return "node" if family.name.startswith("muster_node_") else "cluster"
    return "everywhere" if len(family.processes) > 1 else family.processes[0]


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.help} |"

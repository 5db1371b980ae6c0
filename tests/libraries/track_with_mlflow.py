"""A script outside of Muster that logs with MLflow's client, and prints what the client reads back."""

import json
import math

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Metric, Param

mlflow.set_experiment("digits")
with mlflow.start_run(run_name="parent") as run:
    mlflow.log_params({"lr": 0.1, "layers": 3})
    for step in range(20):
        mlflow.log_metric("train/loss", 1 / (step + 1), step=step)
    mlflow.log_metrics({"val/loss": math.nan, "best": math.inf}, step=20)
    mlflow.set_tag("team", "vision")
    mlflow.log_dict({"a": 1}, "settings/first.json")
    with mlflow.start_run(run_name="fold", nested=True):
        mlflow.log_metric("loss", 2.5, step=1)
client = MlflowClient()
points = [Metric("batch", float(n), 1_000 + n, n) for n in range(1_000)]
client.log_batch(run.info.run_id, metrics=points, params=[Param("from", "batch")])
found = mlflow.search_runs(
    experiment_names=["digits"], filter_string="metrics.`train/loss` < 0.06", output_format="list"
)
history = {
    name: [[m.step, m.value] for m in client.get_metric_history(run.info.run_id, name)]
    for name in ("train/loss", "batch")
}
read = client.get_run(run.info.run_id).data
print(
    json.dumps(
        {
            "found": [each.info.run_name for each in found],
            "history": history,
            "params": read.params,
            "team": read.tags["team"],
            "best": read.metrics["best"],
            "is_nan": math.isnan(read.metrics["val/loss"]),
            "files": [file.path for file in client.list_artifacts(run.info.run_id, "settings")],
            "content": mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/settings/first.json"),
        }
    )
)

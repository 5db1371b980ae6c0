"""A script that registers its models with MLflow's client, and knows nothing of Muster."""

import json
import time
from pathlib import Path

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.types import Schema, TensorSpec

client = MlflowClient()
spec = TensorSpec(np.dtype("float32"), (-1, 4), "x")
signature = ModelSignature(inputs=Schema([spec]), outputs=Schema([spec]))
about = {"signature": signature, "pip_requirements": []}


class Doubler(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        return model_input["x"] * 2


began = time.monotonic()
with mlflow.start_run(run_name="base") as run:
    mlflow.log_metric("val/loss", 0.25, step=7)
    logged = mlflow.pyfunc.log_model("net", python_model=Doubler(), **about)
    first = mlflow.register_model(logged.model_uri, "digits", tags={"team": "vision"})
    again = mlflow.register_model(logged.model_uri, "digits")
    mlflow.pyfunc.log_model(
        "other", python_model=Doubler(), registered_model_name="digits", **about
    )
client.set_registered_model_alias("digits", "champion", first.version)
client.update_model_version("digits", first.version, description="Doubles.")
try:
    mlflow.register_model(logged.model_uri, "my digits")
    refusal = ""
except MlflowException as error:
    refusal = str(error)
loaded = mlflow.pyfunc.load_model(f"models:/digits/{first.version}")
found = client.get_model_version("digits", first.version)
Path("told.json").write_text(
    json.dumps(
        {
            "first": [first.version, first.status, found.status, found.tags],
            "again": again.version,
            "all": sorted(v.version for v in client.search_model_versions("name = 'digits'")),
            "by_alias": client.get_model_version_by_alias("digits", "champion").version,
            "doubled": loaded.predict(np.ones((1, 4), dtype=np.float32)).tolist(),
            "refusal": refusal,
            "is_quick": time.monotonic() - began < 60,
        }
    )
)
print(Path("told.json").read_text())

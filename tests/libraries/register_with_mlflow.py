"""A script outside of Muster that registers models with MLflow's client, and loads them back."""

import json
from pathlib import Path

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.types import Schema, TensorSpec

mlflow.set_experiment("digits")
client = MlflowClient()


class Doubler(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        return model_input["x"] * 2  # as its signature names it


spec = TensorSpec(np.dtype("float32"), (-1, 4), "x")
signature = ModelSignature(inputs=Schema([spec]), outputs=Schema([spec]))
for factor in (1, 2):
    with mlflow.start_run(run_name=f"try-{factor}") as run:
        mlflow.log_metric("val/loss", 1 / factor, step=factor)
        mlflow.pyfunc.log_model(
            "model",
            python_model=Doubler(),
            signature=signature,
            registered_model_name="digits",
            pip_requirements=[],
        )
client.set_registered_model_alias("digits", "production", "1")
client.set_registered_model_alias("digits", "production", "2")
client.set_registered_model_tag("digits", "team", "vision")
client.set_model_version_tag("digits", "2", "checked", "yes")
client.update_registered_model("digits", description="Doubles.")
client.update_model_version("digits", "2", description="Second.")
loaded = mlflow.pyfunc.load_model("models:/digits@production")
doubled = loaded.predict(np.ones((1, 4), dtype=np.float32))
refusals = []
for call in (
    lambda: client.transition_model_version_stage("digits", "1", "Production"),
    lambda: client.create_model_version("digits", "/etc"),
    lambda: client.create_model_version("digits", "https://elsewhere/model"),
    lambda: client.delete_model_version("digits", "2"),
    lambda: client.get_model_version("digits", "9"),
):
    try:
        call()
        refusals.append("")
    except MlflowException as error:
        refusals.append(error.error_code)
client.rename_registered_model("digits", "doubler")
found = client.get_registered_model("doubler")
files = Path(mlflow.artifacts.download_artifacts("models:/doubler/1", dst_path="fetched"))
client.delete_registered_model_alias("doubler", "production")
client.delete_model_version("doubler", "1")
print(
    json.dumps(
        {
            "doubled": doubled.tolist(),
            "refusals": refusals,
            "tags": found.tags,
            "description": found.description,
            "aliases": found.aliases,
            "versions": [
                [v.version, v.description, v.tags, v.status]
                for v in client.search_model_versions("name = 'doubler'")
            ],
            "searched": [m.name for m in client.search_registered_models("name LIKE 'doub%'")],
            "files": sorted(p.name for p in files.iterdir()),
        }
    )
)

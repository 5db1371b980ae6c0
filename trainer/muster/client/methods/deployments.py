"""Methods of the client for deployments and their predictions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..connection import Connection, quoted
from ..waiting import Looks, waiting

if TYPE_CHECKING:
    from .. import schema
    from ..deployments import Predictor


class DeploymentMethods(Connection):
    """Deploy models and ask them."""

    _predictor: Predictor | None = None

    def close(self) -> None:
        super().close()
        if self._predictor is not None:
            self._predictor.close()

    def deploy(
        self,
        /,
        model: str,
        *,
        name: str | None = None,
        replicas: int = 1,
        slots: int = 1,
        reason: str = "",
        **options: Any,
    ) -> schema.DeploymentOut:
        """Deploy a version of a model ("NAME@production", "NAME:3" or "NAME"), and return the
        deployment; `wait_for_deployment` waits until it answers.

        name: by default that of the model. slots: of one replica. options: those of the REST API, such as
        pool="gpus" or max_batch=64.
        """
        body = {"model": model, "replicas": replicas, "slots": slots, "reason": reason, **options}
        if name is not None:
            body["name"] = name
        return self.post("/deployments", body)

    def deployments(self) -> list[schema.DeploymentItem]:
        """Return all deployments by name."""
        return list(self.pages("/deployments"))

    def deployment(self, name: str) -> schema.DeploymentOut:
        """Return a deployment with its revisions and replicas."""
        return self.get(f"/deployments/{quoted(name)}")

    def update_deployment(self, name: str, model: str, *, reason: str = "") -> schema.DeploymentOut:
        """Roll out another version, replica by replica."""
        body = {"model": model, "reason": reason}
        return self.post(f"/deployments/{quoted(name)}:update", body)

    def roll_back_deployment(
        self, name: str, *, revision: int | None = None, reason: str = ""
    ) -> schema.DeploymentOut:
        """Roll out the version that served before, or that of a revision."""
        body: dict[str, Any] = {"reason": reason}
        if revision is not None:
            body["revision"] = revision
        return self.post(f"/deployments/{quoted(name)}:rollback", body)

    def scale_deployment(self, name: str, replicas: int) -> schema.DeploymentOut:
        """Change the number of replicas."""
        return self.post(
            f"/deployments/{quoted(name)}:scale", {"replicas": replicas}, repeatable=True
        )

    def stop_deployment(self, name: str) -> schema.DeploymentOut:
        """Stop a deployment: its replicas answer what they have begun, and end."""
        return self.post(f"/deployments/{quoted(name)}:stop", repeatable=True)

    def delete_deployment(self, name: str) -> None:
        """Delete a stopped deployment with its history."""
        self.delete(f"/deployments/{quoted(name)}")

    @waiting
    def wait_for_deployment(
        self, name: str, *, timeout_s: float | None = None
    ) -> Looks[schema.DeploymentOut]:
        """Wait until a deployment is ready, or until it is stopped, and return it. After an update this
        is the case when it has been rolled out or given up; `message` says why it was. Raises
        TimeoutError."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            found = self.deployment(name)
            if found["state"] in ("ready", "stopped"):
                return found
            if until is not None and time.monotonic() > until:
                raise TimeoutError(f"Deployment {name} is {found['state']} after {timeout_s:g} s.")
            yield 0.5

    def predict(self, deployment: str, inputs: Any) -> list[Any]:
        """Return the output of a deployment for each row of the inputs, as nested lists.

        A request whose connection breaks, or that no replica takes, is sent once more; it may be
        computed twice. Needs a token of the role predict, member or admin.

        inputs: rows of the shape of a sample, as nested lists or an array. Raises Refused and
        Unreachable.
        """
        if self._predictor is None:
            from ..deployments import Predictor

            self._predictor = Predictor(self)
        return self._predictor.predict(deployment, inputs)

"""What a program does with a Muster server: submit, follow, read, compare, fetch, stop."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from .connection import RETRY_FOR_S
from .methods.deployments import DeploymentMethods
from .methods.models import ModelMethods
from .target import Target, find_target

if TYPE_CHECKING:
    import httpx

    from . import schema


class Client(ModelMethods, DeploymentMethods):
    """A client of one server. Methods may be called from several threads.

    Experiments, trials and checkpoints are named by their ids. Answers are the JSON objects of the
    REST API, which docs/reference/rest-api.md lists and /docs of a server describes; numbers to work
    with come as `Frame`. Methods that change something raise Refused with the server's reason;
    all methods raise Unreachable when no server answers for `retry_for_s`.
    """

    def __init__(
        self,
        target: Target | str | None = None,
        token: str | None = None,
        *,
        retry_for_s: float = RETRY_FOR_S,
        product: str = "muster",
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Connect to an address such as "https://muster.example", with a token of `muster token
        create`.

        target: the server from MUSTER_URL, or of the last `muster up` or `muster login`, if there is
            none. token: by default MUSTER_TOKEN, or the token that was stored with the server.
        product, transport: see `Connection`.
        Raises NotConfigured when no server is known, and for what is no address.
        """
        if target is None:
            target = find_target()
        elif isinstance(target, str):
            target = Target(
                target.rstrip("/"), token or os.environ.get("MUSTER_TOKEN"), "the argument"
            )
        if token is not None and token != target.token:
            target = Target(target.url, token, target.source)
        super().__init__(target, retry_for_s=retry_for_s, product=product, transport=transport)

    @classmethod
    def from_environment(cls) -> Self:
        return cls(find_target())

    def me(self) -> schema.MeOut:
        """Return who the token belongs to, and what that user may do."""
        return self.get("/auth/me")

    def cluster(self) -> schema.ClusterOut:
        """Return a summary of the cluster: nodes, slots, what runs and waits."""
        return self.get("/cluster")

    def nodes(self) -> list[schema.NodeOut]:
        """Return all nodes with their slots, by name."""
        return list(self.pages("/nodes"))

    def queue(self, *, limit: int | None = None) -> list[schema.QueueItem]:
        """Return the trials that wait, in the scheduler's order, each with its reason."""
        return list(self.pages("/queue", limit=limit))

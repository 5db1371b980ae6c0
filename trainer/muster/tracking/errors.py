"""Errors with the codes that MLflow's clients know."""

from __future__ import annotations


class TrackingError(Exception):
    """A request that is refused; its answer has the given status and code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    @property
    def body(self) -> dict[str, str]:
        return {"error_code": self.code, "message": str(self)}


def invalid(message: str) -> TrackingError:
    return TrackingError(400, "INVALID_PARAMETER_VALUE", message)


def missing(message: str) -> TrackingError:
    return TrackingError(404, "RESOURCE_DOES_NOT_EXIST", message)


def no_endpoint(method: str, path: str) -> TrackingError:
    """Return the refusal of what is not offered, with what takes its place where something does."""
    hint = ""
    if "trace" in path:
        hint = " Traces are not kept."
    return TrackingError(
        404,
        "ENDPOINT_NOT_FOUND",
        f"Muster does not offer {method} {path[:200]} of MLflow's API.{hint}",
    )

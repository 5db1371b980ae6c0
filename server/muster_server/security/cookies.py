"""The session cookie's name and attributes."""

from __future__ import annotations

from starlette.responses import Response

from muster_server.settings import Settings


def is_https(settings: Settings) -> bool:
    return (settings.public_url or "").lower().startswith("https://")


def session_cookie_name(settings: Settings) -> str:
    """Return the cookie's name. `__Host-` ties the cookie to this very host over HTTPS, so that no
    sibling can plant one."""
    return "__Host-muster_sid" if is_https(settings) else "muster_sid"


def set_session_cookie(response: Response, secret: str, settings: Settings) -> None:
    response.set_cookie(
        session_cookie_name(settings),
        secret,
        max_age=settings.session_max_s,
        path="/",
        secure=is_https(settings),
        httponly=True,
        samesite="lax",
    )


def clear_session_cookie(response: Response, settings: Settings) -> None:
    response.delete_cookie(
        session_cookie_name(settings),
        path="/",
        secure=is_https(settings),
        httponly=True,
        samesite="lax",
    )

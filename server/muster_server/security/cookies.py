"""The cookies: their names and attributes."""

from __future__ import annotations

from starlette.responses import Response

from muster_server.settings import Settings

OPENID_COOKIE_S = 600


def is_https(settings: Settings) -> bool:
    return (settings.public_url or "").lower().startswith("https://")


def session_cookie_name(settings: Settings) -> str:
    """Return the name of the cookie that holds a session."""
    return _name("muster_sid", settings)


def openid_cookie_name(settings: Settings) -> str:
    """Return the name of the cookie that ties a sign-in at a provider to the browser that began it."""
    return _name("muster_openid", settings)


def _name(name: str, settings: Settings) -> str:
    """Return the full name of a cookie. `__Host-` ties it to this very host over HTTPS, so that no sibling can
    plant one; with a path, browsers accept only `__Secure-`. The path is a part of the name, too: a browser sends
    the cookies of every Muster above it along."""
    prefix = settings.path_prefix()
    secure = ("__Secure-" if prefix else "__Host-") if is_https(settings) else ""
    return f"{secure}{name}{prefix.replace('/', '.')}"


def _path(settings: Settings) -> str:
    """Return the path below which browsers send a cookie, so that other programs on the host never see it."""
    return settings.path_prefix() or "/"


def set_openid_cookie(response: Response, secret: str, settings: Settings) -> None:
    _set(response, openid_cookie_name(settings), secret, OPENID_COOKIE_S, settings)


def set_session_cookie(response: Response, secret: str, settings: Settings) -> None:
    _set(response, session_cookie_name(settings), secret, settings.session_max_s, settings)


def clear_session_cookie(response: Response, settings: Settings) -> None:
    response.delete_cookie(
        session_cookie_name(settings),
        path=_path(settings),
        secure=is_https(settings),
        httponly=True,
        samesite="lax",
    )


def _set(response: Response, name: str, value: str, max_age_s: int, settings: Settings) -> None:
    # `lax`, not `strict`: a provider sends the browser back from another site.
    response.set_cookie(
        name,
        value,
        max_age=max_age_s,
        path=_path(settings),
        secure=is_https(settings),
        httponly=True,
        samesite="lax",
    )

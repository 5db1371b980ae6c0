"""What each page shows while nothing has come, when the server fails, refuses, or does not answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from support.axe import violations
from support.stack import Stack

pytestmark = pytest.mark.browser

PAGES = [
    "/",
    "/experiments",
    "/experiments/1",
    "/experiments/1/scaling",
    "/trials/1",
    "/trials/1/diagnosis",
    "/compare",
    "/compare?trials=1,2",
    "/logs",
    "/checkpoints",
    "/models",
    "/models?tab=leaderboards",
    "/models/nets",
    "/models/nets/versions/1",
    "/deployments",
    "/deployments/nets",
    "/queue",
    "/nodes",
    "/nodes/1",
    "/preflights/1",
    *(
        f"/settings?tab={tab}"
        for tab in (
            "notifications", "tokens", "secrets", "projects", "pools", "users", "join",
            "retention", "audit",
        )
    ),
]  # fmt: skip
FRAME = re.compile(r"/api/v1/(auth/|cluster$|notifications/inbox/count|dismissals)")
"""What the frame around each page asks, which stays as it is."""


def refusal(status: int, code: str, message: str) -> Callable[[Route], None]:
    error = {"code": code, "message": message, "hint": None, "fields": [], "request_id": "r-1"}

    def answer(route: Route) -> None:
        route.fulfill(
            status=status, content_type="application/json", body=json.dumps({"error": error})
        )

    return answer


# What stands in place of data, in English and in Chinese.
OBSTACLES: dict[str, tuple[Callable[[Route], None], tuple[str, str]]] = {
    "fails": (
        refusal(500, "server.internal_error", "The server failed."),
        ("Try again", "重试"),
    ),
    "forbidden": (
        refusal(403, "auth.forbidden", "The role viewer does not allow this."),
        ("You do not have access", "你没有访问权限"),
    ),
    "offline": (
        lambda route: route.abort("connectionrefused"),
        ("The server cannot be reached.", "无法连接服务器。"),
    ),
}


@pytest.fixture(scope="module", params=["en-US", "zh-CN"])
def window(
    request: pytest.FixtureRequest, signed_in: BrowserContext, browser: Browser
) -> Iterator[Page]:
    """English on a wide screen, Chinese on a phone."""
    is_wide = request.param == "en-US"
    context = browser.new_context(
        viewport={"width": 1440 if is_wide else 390, "height": 900},
        locale=request.param,
        storage_state=signed_in.storage_state(),
        reduced_motion="reduce",
        color_scheme="light" if is_wide else "dark",
    )
    context.set_default_timeout(30_000)
    yield context.new_page()
    context.close()


def share(window: Page, kind: int) -> list[str]:
    """Half of the pages, for this window and kind of obstacle: each page meets each kind once, and
    both languages and sizes meet each kind."""
    is_wide = window.evaluate("navigator.language") == "en-US"
    return PAGES[(kind + is_wide) % 2 :: 2]


@pytest.fixture(autouse=True)
def way_clear(window: Page) -> Iterator[None]:
    yield
    window.unroute_all(behavior="ignoreErrors")


def meet(window: Page, handler: Callable[[Route], None]) -> None:
    def on_route(route: Route) -> None:
        if FRAME.search(route.request.url.partition("?")[0]):
            route.fallback()
        else:
            handler(route)

    window.route("**/api/v1/**", on_route)


@pytest.mark.parametrize("kind", OBSTACLES)
def test_every_page_says_what_is_in_the_way(window: Page, stack: Stack, kind: str) -> None:
    handler, (english, chinese) = OBSTACLES[kind]
    meet(window, handler)
    said = chinese if window.evaluate("navigator.language") == "zh-CN" else english
    problems = []
    for path in share(window, list(OBSTACLES).index(kind)):
        window.goto(stack.url + path)
        expect(window.locator("main").get_by_text(said).first, path).to_be_visible()
        expect(window.locator("main [role=status][aria-label]"), path).to_have_count(
            0, timeout=60_000
        )
        if window.evaluate("document.documentElement.scrollWidth > innerWidth"):
            problems.append(f"{path} sticks out")
        problems += [f"{path}: {one}" for one in violations(window)]
    assert problems == []


def test_every_page_has_a_skeleton_until_its_data_comes(window: Page, stack: Stack) -> None:
    held: list[Route] = []
    meet(window, held.append)
    for path in share(window, 0):
        window.goto(stack.url + path, wait_until="commit")
        expect(window.locator("main [role=status][aria-label]").first, path).to_be_visible()
    for route in held:
        route.abort()

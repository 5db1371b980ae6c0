"""What each page shows while nothing has come, when the server fails, refuses, or does not answer."""

from __future__ import annotations

import itertools
import json
import re
from collections import deque
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from support.pages import go, violations
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
    "/goodput",
    "/reports",
    "/reports/1",
    "/schedules",
    "/sessions",
    "/nodes",
    "/nodes/1",
    "/nodes/add",
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
def windows(
    request: pytest.FixtureRequest, signed_in: BrowserContext, browser: Browser
) -> Iterator[BrowserContext]:
    """Two tabs. English on a wide screen, Chinese on a phone."""
    is_wide = request.param == "en-US"
    context = browser.new_context(
        viewport={"width": 1440 if is_wide else 390, "height": 900},
        locale=request.param,
        storage_state=signed_in.storage_state(),
        reduced_motion="reduce",
        color_scheme="light" if is_wide else "dark",
    )
    context.set_default_timeout(60_000)
    context.new_page()
    context.new_page()
    yield context
    context.close()


def language(windows: BrowserContext) -> str:
    said: str = windows.pages[0].evaluate("navigator.language")
    return said


def share(windows: BrowserContext, kind: int) -> list[str]:
    """Half of the pages, for this window and kind of obstacle: each page meets each kind once, and
    both languages and sizes meet each kind."""
    return PAGES[(kind + (language(windows) == "en-US")) % 2 :: 2]


@pytest.fixture(autouse=True)
def way_clear(windows: BrowserContext) -> Iterator[None]:
    """Every test begins with tabs that have asked for nothing."""
    yield
    windows.unroute_all(behavior="ignoreErrors")
    for tab in windows.pages:
        tab.goto("about:blank")


def meet(windows: BrowserContext, handler: Callable[[Route], None]) -> None:
    def on_route(route: Route) -> None:
        if FRAME.search(route.request.url.partition("?")[0]):
            route.fallback()
        else:
            handler(route)

    windows.route("**/api/v1/**", on_route)


def visit(
    windows: BrowserContext, stack: Stack, paths: list[str], *, anew: bool = False
) -> Iterator[tuple[str, Page]]:
    """Each page with its tab, the next one already on its way in the other tab: before a page says that the
    server fails, it asks once more. anew: by its address, and not by a link."""
    tabs = itertools.cycle(windows.pages)
    ahead: deque[tuple[str, Page]] = deque()
    for path in paths:
        tab = next(tabs)
        if anew:
            tab.goto(stack.url + path)
        else:
            go(tab, stack.url, path)
        ahead.append((path, tab))
        if len(ahead) == len(windows.pages):
            yield ahead.popleft()
    yield from ahead


@pytest.mark.parametrize("kind", OBSTACLES)
def test_every_page_says_what_is_in_the_way(
    windows: BrowserContext, stack: Stack, kind: str
) -> None:
    handler, (english, chinese) = OBSTACLES[kind]
    meet(windows, handler)
    said = chinese if language(windows) == "zh-CN" else english
    problems = []
    paths = share(windows, list(OBSTACLES).index(kind))
    # What the frame asks is answered, and so a page that was gone to would take the server for one that is there
    # again, and ask again, as long as the frame asks.
    for path, tab in visit(windows, stack, paths, anew=kind == "offline"):
        expect(tab.locator("main").get_by_text(said).first, path).to_be_visible()
        expect(tab.locator("main [role=status][aria-label]"), path).to_have_count(0)
        if tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
            problems.append(f"{path} sticks out")
        problems += [f"{path}: {one}" for one in violations(tab)]
    assert problems == []


def test_every_page_has_a_skeleton_until_its_data_comes(
    windows: BrowserContext, stack: Stack
) -> None:
    held: list[Route] = []
    meet(windows, held.append)
    for path, tab in visit(windows, stack, share(windows, 0)):
        expect(tab.locator("main [role=status][aria-label]").first, path).to_be_visible()
    for route in held:
        route.abort()

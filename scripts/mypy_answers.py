"""A mypy plugin that gives requests of the client the type of their answer: `client.get(f"/trials/{no}")` is a
`TrialDetail`, as the OpenAPI description says. Reports paths that no route has."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mypy.nodes import (
    CallExpr,
    ConditionalExpr,
    Expression,
    ListExpr,
    MemberExpr,
    MypyFile,
    StrExpr,
)
from mypy.plugin import MethodContext, Plugin, ReportConfigContext
from mypy.types import AnyType, Instance, Type, TypeOfAny, UnionType, get_proper_type

sys.path.insert(0, str(Path(__file__).parent))
from python_types import answer_of, name_in

API = Path(__file__).resolve().parents[1] / "build" / "openapi.json"
PREFIX = "/api/v1"
TYPES = "muster.client.schema"
PACKAGE = "muster.client."
METHODS = {
    "get": "get",
    "pages": "get",
    "post": "post",
    "post_once": "post",
    "put": "put",
    "patch": "patch",
    "delete": "delete",
}
"""Method of the client → that of HTTP."""
HOLE = "{}"


def read_routes() -> dict[str, dict[str, str | None]]:
    """Return the answers: method of HTTP → path with holes → name of the schema, None for others."""
    routes: dict[str, dict[str, str | None]] = defaultdict(dict)
    for path, operations in json.loads(API.read_text())["paths"].items():
        for method, operation in operations.items():
            answer = answer_of(operation)
            name = name_in(answer) if answer is not None and "$ref" in answer else None
            routes[method][re.sub(r"\{\w+\}", HOLE, path.removeprefix(PREFIX))] = name
    return routes


class TypedAnswers(Plugin):
    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.routes = read_routes()
        self.digest = hashlib.sha256(API.read_bytes()).hexdigest()

    def report_config_data(self, _: ReportConfigContext) -> str:
        return self.digest  # without it, mypy would keep what it found for another description

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        is_ours = file.fullname.partition(".")[0] in ("muster", "muster_models")
        return [(10, TYPES, -1)] if is_ours and file.fullname != TYPES else []

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        name = fullname.rpartition(".")[2]
        if name not in METHODS or not fullname.startswith(PACKAGE):
            return None
        return lambda context: self._answer(context, name)

    def _answer(self, context: MethodContext, name: str) -> Type:
        paths = list(_texts(context.args[0][0])) if context.args[0] else []
        if None in paths or not paths:
            return context.default_return_type
        routes = self.routes[METHODS[name]]
        names: set[str | None] = set()
        for path in paths:
            found = {routes[path]} if path in routes else set(_similar(routes, str(path)))
            if not found:
                context.api.fail(f"No route {METHODS[name].upper()} {path}", context.context)
            names |= found
        if None in names or not names:
            return context.default_return_type
        types = [_type(context, str(schema)) for schema in sorted(map(str, names))]
        if name != "pages":
            return UnionType.make_union(types)
        items = [_items(found) for found in types]
        given = get_proper_type(context.default_return_type)
        assert isinstance(given, Instance)
        return given.copy_modified(args=[UnionType.make_union(items)])


def _texts(path: Expression) -> Iterator[str | None]:
    """Yield what a path may be, with a hole for each value in it; None for an unknown one."""
    if isinstance(path, StrExpr):
        yield path.value
    elif isinstance(path, ConditionalExpr):
        yield from _texts(path.if_expr)
        yield from _texts(path.else_expr)
    elif (  # mypy reads an f-string as "".join([…])
        isinstance(path, CallExpr)
        and isinstance(path.callee, MemberExpr)
        and isinstance(path.callee.expr, StrExpr)
        and isinstance(path.args[0], ListExpr)
    ):
        pieces = path.args[0].items
        yield "".join(piece.value if isinstance(piece, StrExpr) else HOLE for piece in pieces)
    else:
        yield None


def _similar(routes: dict[str, str | None], path: str) -> Iterator[str | None]:
    """Yield the answers of the paths that this one may be: a hole stands for some text in either."""
    return (name for route, name in routes.items() if _is_one(path, route) or _is_one(route, path))


def _is_one(pattern: str, path: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(re.escape(HOLE), ".+"), path) is not None


def _type(context: MethodContext, schema: str) -> Type:
    info = context.api.modules[TYPES].names[schema].node  # type: ignore[attr-defined]
    assert info.typeddict_type is not None
    return info.typeddict_type.copy_modified(fallback=Instance(info, []))  # type: ignore[no-any-return]


def _items(page: Any) -> Type:
    """Return the type of the items of a page."""
    found = get_proper_type(page.items.get("items"))
    return found.args[0] if isinstance(found, Instance) else AnyType(TypeOfAny.special_form)


def plugin(_: str) -> type[Plugin]:
    return TypedAnswers

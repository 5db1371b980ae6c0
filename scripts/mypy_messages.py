"""A mypy plugin that finds messages in strings: `f"{reason}"` and `str(reason)` of a Message, which raise
when they run. Use `reason.english`."""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import FunctionContext, MethodContext, Plugin
from mypy.types import Instance, Type, UnionType, get_proper_type

MESSAGES = {"muster_server.domain.messages.Message", "muster_server.domain.messages.Rendered"}


class NoMessageInStrings(Plugin):
    # mypy checks f"{a}" as "{:{}}".format(a, "").
    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return _check if fullname == "builtins.str.format" else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        return _check if fullname == "builtins.str" else None


def _check(context: MethodContext | FunctionContext) -> Type:
    if any(_may_be_message(given) for given_types in context.arg_types for given in given_types):
        context.api.fail("A message in a string: use .english", context.context)
    return context.default_return_type


def _may_be_message(given: Type) -> bool:
    found = get_proper_type(given)
    if isinstance(found, UnionType):
        return any(_may_be_message(item) for item in found.items)
    return isinstance(found, Instance) and found.type.fullname in MESSAGES


def plugin(_: str) -> type[Plugin]:
    return NoMessageInStrings

"""SCIM 2.0, RFC 7643 and 7644: what a provisioning client asks for, and how it is answered.

Imported once a client asks: the library takes half a second.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import Field, ValidationError
from scim2_models import (
    URN,
    AuthenticationScheme,
    Bulk,
    CaseExact,
    ChangePassword,
    ComplexAttribute,
    Context,
    Error,
    ETag,
    Filter,
    InvalidFilterException,
    Meta,
    Mutability,
    NotImplementedException,
    PatchOp,
    Reference,
    Required,
    Resource,
    ResponseParameters,
    SCIMException,
    ScimFilter,
    ScimPolicy,
    ScimProvider,
    SearchRequest,
    ServiceProviderConfig,
    Sort,
    Uniqueness,
)
from scim2_models import Patch as PatchSupport
from scim2_models.path import CompareOperator, Comparison
from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from muster_server.db.models import GroupRow, ScimGroupRow, ScimUserRow, UserRow
from muster_server.domain.accounts import comparison_key
from muster_server.domain.admission import UserRole
from muster_server.errors import InvalidRequest, NotFound
from muster_server.settings import Settings

from ..callers import Caller
from . import provisioning
from .provisioning import Told

FILTER_MAX = 1000
"""Characters of a filter."""
OPERATIONS_MAX = 100
"""Operations of one PATCH; each takes up to half a second in the largest group."""
PREFIX = "/api/scim/v2"
LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"


ExternalId = Annotated[str | None, CaseExact.true, Field(max_length=255)]


class User(Resource[Any]):
    """What is kept of a user. Anything else that a client sends is left out."""

    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:User")

    user_name: Annotated[str | None, Required.true, Uniqueness.server] = Field(
        None, min_length=1, max_length=254
    )
    external_id: ExternalId = None
    active: bool | None = None


class GroupMember(ComplexAttribute):
    value: Annotated[str | None, Mutability.immutable] = None
    ref: Annotated[Reference[User] | None, Mutability.immutable] = Field(
        None, serialization_alias="$ref", validation_alias="$ref"
    )
    type: Annotated[str | None, Mutability.immutable] = Field(None, examples=["User"])


class Group(Resource[Any]):
    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:Group")

    display_name: Annotated[str | None, Required.true, Uniqueness.server] = Field(
        None, min_length=1, max_length=200
    )
    external_id: ExternalId = None
    members: list[GroupMember] | None = None


POLICY = ScimPolicy(
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,  # as Entra ID removes members
)
SERVICE = ScimProvider(
    models=[User, Group],
    policy=POLICY,
    config=ServiceProviderConfig(
        patch=PatchSupport(supported=True),
        bulk=Bulk(supported=False, max_operations=0, max_payload_size=0),
        filter=Filter(supported=True, max_results=200),
        change_password=ChangePassword(supported=False),
        sort=Sort(supported=False),
        etag=ETag(supported=False),
        authentication_schemes=[
            AuthenticationScheme(
                type=AuthenticationScheme.Type.oauthbearertoken,
                name="Bearer token",
                description="A token of MUSTER_SCIM_TOKEN",
                primary=True,
            )
        ],
    ),
)
R = TypeVar("R", bound=Resource[Any])


class Store(ABC, Generic[R]):
    """Resources of one kind."""

    model: ClassVar[type[Resource[Any]]]
    place: ClassVar[str]
    page_max: ClassVar[int]
    filters: ClassVar[Mapping[str, str]]
    """Attributes that lists are filtered by, in lower case, as they are written."""

    def __init__(self, session: Session, by: Caller, settings: Settings) -> None:
        self.session, self.by, self.settings = session, by, settings
        self.base = f"{settings.browser_url()}{PREFIX}"

    @abstractmethod
    def find(
        self, wanted: tuple[str, str] | None, *, offset: int, limit: int, whole: bool
    ) -> tuple[list[R], int]:
        """Return one page of those that a filter, (attribute, value), wants, and the number of all. whole:
        with their members."""

    @abstractmethod
    def get(self, id: int, *, lock: bool) -> R:
        """Return one, locked if it is to be changed. Raises NotFound."""

    @abstractmethod
    def create(self, said: R) -> R:
        """Add what a client says."""

    @abstractmethod
    def change(self, id: int, said: R, *, replaces: bool) -> R:
        """Follow what a client says. replaces: whether what it does not say is taken away."""

    @abstractmethod
    def delete(self, id: int) -> None:
        """Take one away. Raises NotFound."""

    @abstractmethod
    def matching(self, value: str) -> Mapping[str, ColumnElement[bool]]:
        """Return the condition of each of `filters` for a value."""

    def where(self, wanted: tuple[str, str] | None) -> list[ColumnElement[bool]]:
        """Return the conditions of a filter, (attribute, value)."""
        return [self.matching(wanted[1])[wanted[0]]] if wanted is not None else []

    def meta(self, id: int, created: Any) -> Meta:
        name = self.model.__name__
        return Meta(resource_type=name, created=created, location=f"{self.base}/{self.place}/{id}")


class Users(Store[User]):
    model, place, page_max = User, "Users", 200
    filters = {"id": "id", "externalid": "externalId", "username": "userName"}

    def matching(self, value: str) -> Mapping[str, ColumnElement[bool]]:
        return {
            "id": UserRow.id == _number(value),
            "externalid": ScimUserRow.external_id == value,
            "username": ScimUserRow.name_key == comparison_key(value),
        }

    def find(
        self, wanted: tuple[str, str] | None, *, offset: int, limit: int, whole: bool
    ) -> tuple[list[User], int]:
        where = self.where(wanted)
        rows, total = provisioning.list_users(self.session, where, offset=offset, limit=limit)
        return [self._shown(row) for row in rows], total

    def get(self, id: int, *, lock: bool) -> User:
        return self._shown(provisioning.get_user(self.session, id, lock=lock))

    def create(self, said: User) -> User:
        default = self.settings.oidc_default_role
        role: UserRole = "member" if default == "member" else "viewer"
        is_subject = self.settings.scim_external_id_claim == "sub"
        issuer = self.settings.oidc_issuer if is_subject else None
        told = _told(said.user_name, said, active=said.active)
        return self._shown(
            provisioning.create_user(self.session, told, role=role, issuer=issuer, caller=self.by)
        )

    def change(self, id: int, said: User, *, replaces: bool) -> User:
        user = provisioning.get_user(self.session, id)
        told = _told(said.user_name, said, active=said.active)
        if replaces and told.external_id is None:
            # Clients that replace a user leave it out, and it says who may sign in as them.
            told = Told(name=told.name, external_id=user[1].external_id, active=told.active)
        provisioning.change_user(self.session, user, told, self.by)
        return self._shown(user)

    def delete(self, id: int) -> None:
        provisioning.delete_user(self.session, provisioning.get_user(self.session, id), self.by)

    def _shown(self, user: provisioning.User) -> User:
        account, row = user
        return User(
            id=str(account.id),
            external_id=row.external_id,
            user_name=row.user_name,
            active=account.is_active,
            meta=self.meta(account.id, account.created_at),
        )


class Groups(Store[Group]):
    model, place, page_max = Group, "Groups", 20
    filters = {"id": "id", "externalid": "externalId", "displayname": "displayName"}

    def matching(self, value: str) -> Mapping[str, ColumnElement[bool]]:
        return {
            "id": GroupRow.id == _number(value),
            "externalid": ScimGroupRow.external_id == value,
            "displayname": ScimGroupRow.name_key == comparison_key(value),
        }

    def find(
        self, wanted: tuple[str, str] | None, *, offset: int, limit: int, whole: bool
    ) -> tuple[list[Group], int]:
        where = self.where(wanted)
        rows, total = provisioning.list_groups(self.session, where, offset=offset, limit=limit)
        return self._shown(rows, whole=whole), total

    def get(self, id: int, *, lock: bool) -> Group:
        return self._shown([provisioning.get_group(self.session, id, lock=lock)])[0]

    def create(self, said: Group) -> Group:
        told = _told(said.display_name, said)
        group = provisioning.create_group(self.session, told, self.by)
        provisioning.set_members(self.session, group, _ids(said), self.by)
        return self._shown([group])[0]

    def change(self, id: int, said: Group, *, replaces: bool) -> Group:
        group = provisioning.get_group(self.session, id)
        told = _told(said.display_name, said)
        provisioning.change_group(self.session, group, told, self.by)
        provisioning.set_members(self.session, group, _ids(said), self.by)
        return self._shown([group])[0]

    def delete(self, id: int) -> None:
        provisioning.delete_group(self.session, provisioning.get_group(self.session, id), self.by)

    def _shown(self, rows: Sequence[provisioning.Group], *, whole: bool = True) -> list[Group]:
        ids = [group.id for group, _ in rows]
        members = provisioning.members_of(self.session, ids) if whole else {}
        return [
            Group(
                id=str(group.id),
                external_id=row.external_id,
                display_name=group.provider_group,
                members=[
                    GroupMember(
                        value=str(id), ref=Reference[User](f"{self.base}/Users/{id}"), type="User"
                    )
                    for id in members.get(group.id, ())
                ]
                or None,
                meta=self.meta(group.id, group.created_at),
            )
            for group, row in rows
        ]


STORES: Mapping[str, type[Store[Any]]] = {"users": Users, "groups": Groups}


def answer(
    session: Session,
    by: Caller,
    settings: Settings,
    method: str,
    path: str,
    query: Mapping[str, str],
    body: Any,
) -> tuple[int, dict[str, Any] | None]:
    """Return the status and the body of the answer to a request. Raises MusterError, and ScimRefusal."""
    try:
        return _answer(session, by, settings, method, path, query, body)
    except ValidationError as error:
        raise ScimRefusal(Error.from_validation_errors(error)[0]) from None
    except SCIMException as error:
        raise ScimRefusal(error.to_error()) from None


class ScimRefusal(Exception):
    """A request that the protocol does not allow, with the answer to it."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.detail)
        self.status = error.status or 400
        self.body = error.model_dump()


def _answer(
    session: Session,
    by: Caller,
    settings: Settings,
    method: str,
    path: str,
    query: Mapping[str, str],
    body: Any,
) -> tuple[int, dict[str, Any] | None]:
    place, _, id = path.partition("/")
    known = STORES.get(place.lower())
    if known is None:
        return 200, _discovered(settings, method, place, id, query)
    store = known(session, by, settings)
    model: Any = known.model
    is_search = id == ".search" and method == "POST"
    if is_search or (not id and method == "GET"):
        asked = body if is_search else dict(query)
        if isinstance(asked, dict) and len(str(asked.get("filter", ""))) > FILTER_MAX:
            raise InvalidFilterException(detail=f"A filter has at most {FILTER_MAX} characters")
        return 200, _list(store, SearchRequest[model].model_validate(asked))
    shown = ResponseParameters[model].model_validate(
        {name: query[name] for name in ("attributes", "excludedAttributes") if name in query}
    )
    if not id and method == "POST":
        said = model.model_validate(
            body, scim_ctx=Context.RESOURCE_CREATION_REQUEST, scim_policy=POLICY
        )
        return 201, _dumped(store.create(said), Context.RESOURCE_CREATION_RESPONSE, shown)
    number = _number(id)
    if not id:
        raise NotFound("request.no_such_path", f"{method} needs an id: /{known.place}/ID.")
    if method == "GET":
        return 200, _dumped(store.get(number, lock=False), Context.RESOURCE_QUERY_RESPONSE, shown)
    if method == "DELETE":
        store.delete(number)
        return 204, None
    if method == "PUT":
        said = model.model_validate(
            body, scim_ctx=Context.RESOURCE_REPLACEMENT_REQUEST, scim_policy=POLICY
        )
        changed = store.change(number, said, replaces=True)
        return 200, _dumped(changed, Context.RESOURCE_REPLACEMENT_RESPONSE, shown)
    if method == "PATCH":
        patch = PatchOp[model].model_validate(
            body, scim_ctx=Context.RESOURCE_PATCH_REQUEST, scim_policy=POLICY
        )
        if len(patch.operations or ()) > OPERATIONS_MAX:
            raise _only(413, f"A PATCH has at most {OPERATIONS_MAX} operations: send several")
        said = store.get(number, lock=True)
        patch.patch(said, scim_policy=POLICY)
        changed = store.change(number, said, replaces=False)
        return 200, _dumped(changed, Context.RESOURCE_PATCH_RESPONSE, shown)
    raise NotFound("request.no_such_path", f"There is no {method} /{path[:100]}.")


def _list(store: Store[Any], asked: SearchRequest[Any]) -> dict[str, Any]:
    offset = asked.start_index_0 or 0
    limit = min(store.page_max if asked.count is None else asked.count, store.page_max)
    left_out = [str(name).lower() for name in asked.excluded_attributes or ()]
    found, total = store.find(
        _wanted(store, asked.filter),
        offset=offset,
        limit=limit,
        whole="members" not in left_out,
    )
    return {
        "schemas": [LIST],
        "totalResults": total,
        "startIndex": offset + 1,
        "itemsPerPage": len(found),
        "Resources": [_dumped(one, Context.RESOURCE_QUERY_RESPONSE, asked) for one in found],
    }


def _wanted(store: Store[Any], asked: ScimFilter[Any] | None) -> tuple[str, str] | None:
    """Return the attribute, in lower case, and the value that a filter compares."""
    if asked is None:
        return None
    node = asked.ast
    if (
        isinstance(node, Comparison)
        and node.op is CompareOperator.eq
        and node.attr_path.sub_attr is None
        and node.attr_path.attr.lower() in store.filters
        and isinstance(node.value, str)
    ):
        return node.attr_path.attr.lower(), node.value
    forms = ", ".join(f'{name} eq "…"' for name in store.filters.values())
    raise InvalidFilterException(
        detail=f"The filter {str(asked)[:200]!r} is not supported. One of these is: {forms}"
    )


def _discovered(
    settings: Settings, method: str, place: str, id: str, query: Mapping[str, str]
) -> dict[str, Any]:
    """Return what the service says of itself."""
    base = f"{settings.browser_url()}{PREFIX}"
    known: dict[str, Sequence[Resource[Any]]] = {
        "schemas": SERVICE.schemas,
        "resourcetypes": SERVICE.resource_types,
        "serviceproviderconfig": [SERVICE.config] if SERVICE.config else [],
    }
    found = known.get(place.lower())
    if place == ".search":
        raise NotImplementedException(detail="Search in /Users or /Groups, one at a time")
    if found is None:
        raise NotFound("request.no_such_path", f"There is no /{place[:100]}.")
    if method != "GET":
        raise _only(405, f"/{place} is only read")
    dumped = []
    for one in found:
        name = type(one).__name__
        path = f"{name}s/{one.id}" if name != "ServiceProviderConfig" else name
        meta = Meta(resource_type=name, location=f"{base}/{path}")
        shown = one.model_copy(update={"meta": meta})
        dumped.append(shown.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE))
    if place.lower() == "serviceproviderconfig":
        return dumped[0]
    if id:
        for shown_one in dumped:
            if shown_one["id"] == id:
                return shown_one
        raise NotFound("scim.not_found", f"There is no {id[:100]!r} in /{place}.")
    if "filter" in query:
        raise _only(403, f"/{place} takes no filter")
    return {"schemas": [LIST], "totalResults": len(dumped), "Resources": dumped}


def _only(status: int, detail: str) -> SCIMException:
    return SCIMException.from_error(Error(status=status, detail=detail))


def _dumped(
    resource: Resource[Any], context: Context, shown: ResponseParameters[Any]
) -> dict[str, Any]:
    return resource.model_dump(scim_ctx=context, response_parameters=shown)


def _told(name: str | None, said: Resource[Any], *, active: bool | None = None) -> Told:
    assert name is not None  # it is required
    return Told(name=name, external_id=said.external_id, active=active)


def _ids(said: Group) -> set[int]:
    """Return the ids of the users that are to be in a group. Raises InvalidRequest for a group in it."""
    ids = set()
    for member in said.members or ():
        if (member.type or "User").lower() != "user" or _number(member.value or "") < 0:
            raise InvalidRequest(
                "scim.invalid_value", f"The member {str(member.value)[:100]!r} is no user's id."
            )
        ids.add(_number(member.value or ""))
    return ids


def _number(id: str) -> int:
    """Return the number of an id; -1, which nothing has, for what is none."""
    return int(id) if id.isascii() and id.isdecimal() and len(id) <= 18 else -1

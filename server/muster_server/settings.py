"""Settings of the server, controller and Celery worker: environment variables MUSTER_…, read once."""

from __future__ import annotations

import json
import os
import re
import socket
from functools import lru_cache
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from muster.launch.known_variables import PREFIX, misspelt_lines

DATABASE_FORMS = "sqlite:///… or postgresql+psycopg://…"
PREFIX_FORM = re.compile(
    r"(?!/(?:agent|api|assets|docs|healthz|metrics|mlflow|readyz|viewer)(?:/|$))(?:/[A-Za-z0-9_-]+)*"
)
"""Form of the public address's path. Below one of the server's own paths, a request that a proxy has stripped
would look like one that it has not."""
ROUTER_PREFIX_FORM = re.compile(r"(?:/[A-Za-z0-9_-]+)*")
"""Form of the path of the router's address, which gets into the configuration of HAProxy."""
SCIM_TOKEN_MIN = 32
REDIS_SCHEMES = ("redis", "rediss", "unix")


class WrongSettings(Exception):
    """The settings cannot be used; the text has a line for each that is wrong."""


def _parsed_list(value: Any) -> Any:
    """Parse the JSON list of an environment variable."""
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise ValueError('must be a JSON list like ["a", "b"]')
    return found


Texts = Annotated[list[str], NoDecode, BeforeValidator(_parsed_list)]


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="MUSTER_", extra="ignore", frozen=True, use_attribute_docstrings=True
    )

    database_url: str = Field(default="sqlite:///muster.db", repr=False)
    """SQLAlchemy URL: sqlite:///… or postgresql+psycopg://…"""
    database_url_file: Path | None = None
    """File that holds the database URL, which keeps its password out of the environment."""
    redis_url: SecretStr | None = None
    """redis://…, rediss://… or unix://…; without it live pages poll, and nothing is lost."""
    redis_url_file: Path | None = None
    """File that holds the Redis URL."""
    secrets_key: SecretStr | None = None
    """Keys that encrypt the secrets of users and projects: 32 random bytes each, in base64,
    separated by spaces. The first one encrypts, all decrypt. `muster-server secrets new-key` makes
    one. Without a key, secrets are off."""
    secrets_key_file: Path | None = None
    """File that holds these keys, one a line, readable by its owner alone (mode 0600)."""
    host: str = "127.0.0.1"
    """Address the API server listens on; 0.0.0.0 for all of them."""
    port: int = Field(default=8470, ge=0, le=65535)
    """Port the API server listens on; 0 takes any free one."""
    listen_fd: int | None = Field(default=None, ge=3)
    """Number of an open socket the API server inherits and answers on, instead of opening one on
    host and port itself. Whoever started it keeps the port while it is started again."""
    instance: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]{1,64}$")
    """Name of this API server, given in X-Muster-Instance by /readyz: tells it from another one
    that answers at the same address. No secret."""
    server_name: str = Field(default="", max_length=128)
    """What this API server is called among several, the same after each restart; unset: the machine's
    name and the port. Two that run at the same time need different names."""
    public_url: str | None = None
    """Where browsers reach the dashboard, behind a proxy for example: printed in links, and taken
    as our own by the Origin check. With https, cookies are bound to it. A path, as in
    https://lab.example/muster, is the prefix of every page and route."""
    setup_command: str | None = None
    """The command the set-up page shows for a new set-up token; unset: one for this machine and
    database."""
    allowed_hosts: Texts = ["localhost", "127.0.0.1", "[::1]"]
    """Host header values that are answered, as a JSON list; the name in public_url is added."""
    forwarded_allow_ips: Texts = []
    """Proxies whose X-Forwarded-* headers are believed, as a JSON list of addresses, networks or host names."""
    log_format: Literal["auto", "console", "json"] = "auto"
    """console for people, json for machines; auto: console on a terminal."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """debug adds heartbeats and probes that went well."""
    body_max_bytes: int = Field(default=1_048_576, ge=1024)
    """Most bytes of a request from people; blobs and agents have limits of their own."""
    agent_body_max_bytes: int = Field(default=8 * 1_048_576, ge=1024)
    """Most bytes of a request from an agent."""
    blob_max_bytes: int = Field(default=100 * 1_048_576, ge=1024)
    """Most bytes of an uploaded code bundle."""
    run_artifact_max_bytes: int = Field(default=512 * 1_048_576, ge=1024)
    """Most bytes of one artifact that an MLflow client outside a job logs. Kept in the database."""
    run_artifacts_max_bytes: int = Field(default=4 << 30, ge=1024)
    """Most bytes of all such artifacts of one run."""
    export_max_bytes: int = Field(default=2 << 30, ge=1_048_576)
    """Most bytes of a model exported through the server; larger ones are exported by the command
    line, where the checkpoint lies."""
    exports_max_bytes: int = Field(default=8 << 30, ge=1_048_576)
    """Most bytes of all exported models that are kept at a time, in the database."""
    export_hours: int = Field(default=24, ge=1)
    """An exported model is deleted this long after it was asked for."""
    model_file_max_bytes: int = Field(default=2 << 30, ge=1_048_576)
    """Most bytes of one file of a model that is uploaded. Kept in the database."""
    models_max_bytes: int = Field(default=16 << 30, ge=1_048_576)
    """Most bytes of all uploaded files of models. Versions of checkpoints and outputs do not count:
    their files stay in the storage of the nodes."""
    work_folder_hours: float = Field(default=24.0, ge=0)
    """How long the work folder of an ended trial stays on its node after its files are in the
    storage."""
    header_max_bytes: int = Field(default=32_768, ge=1024)
    """Most bytes of all headers of a request."""
    request_timeout_s: float = Field(default=30.0, gt=0)
    """A request body must arrive within this. For uploads it bounds a pause, not the whole."""
    session_idle_s: int = Field(default=12 * 3600, ge=60)
    """A browser session that is not used for this long ends."""
    session_max_s: int = Field(default=7 * 86_400, ge=60)
    """A browser session ends after this in any case."""
    sign_in_attempts_per_minute: int = Field(default=20, ge=1)
    """Sign-in attempts per minute from one address, over all accounts; one account allows 5 a
    minute from one address."""
    live_sockets_per_user: int = Field(default=20, ge=1)
    """Live connections (browser tabs) of one user to one API server."""
    heartbeat_s: float = Field(default=5.0, gt=0)
    """Least time between two heartbeats of an agent; grows as nodes / 50 s."""
    agent_credential_max_age_s: float = Field(default=86_400.0, ge=1)
    """An agent's credential that is older than this is replaced with its next heartbeat."""
    node_suspect_missed: int = Field(default=3, ge=1)
    """Heartbeats a node may miss before it is SUSPECT and gets no new work."""
    node_lost_s: float = Field(default=60.0, gt=0)
    """Silence after which a node is LOST and its trials start again elsewhere. Keep it at
    `MUSTER_HEARTBEAT_S` × (`MUSTER_NODE_SUSPECT_MISSED` + 2) or more, or a short outage of the server
    can cost a node that is well."""
    server_away_s: float = Field(default=900.0, ge=0)
    """While other API servers hear their nodes, the silence of nodes whose own API server is away is
    excused for this long at most."""
    takeover_grace_s: float = Field(default=60.0, ge=0)
    """After the controller starts, no node becomes LOST for this long."""
    scheduler_preempt: bool = True
    """Whether trials may be asked to save a checkpoint and make room for others of higher
    priority."""
    scheduler_grow_after_s: float = Field(default=300.0, ge=0)
    """How long slots must have been free, and an elastic trial running, before it grows into them:
    each change of size costs a stop and a start."""
    prepare_timeout_s: float = Field(default=900.0, gt=0)
    """How long a node may take to fetch code and prepare the environment."""
    start_timeout_s: float = Field(default=600.0, gt=0)
    """How long workers may take from start until the rendezvous."""
    start_preflight_s: float = Field(default=60.0, ge=0)
    """When the workers of a gang of several nodes are not all up after so long, the nodes try to reach
    each other (`muster node preflight`); a gang whose nodes cannot is ended, and its trial tries
    others. 0: never."""
    stuck_after_s: float = Field(default=180.0, ge=30)
    """A trial of which nothing has moved for this long is said to be stuck, and the stacks of its
    ranks are kept, once per attempt. It is stopped for that only where
    its document says so (restarts.stuck_after_s)."""
    diagnosis_repeats: int = Field(default=3, ge=2, le=10)
    """How often a diagnosis runs each kind of probe, unless it is told otherwise."""
    diagnosis_steps: int = Field(default=60, ge=15, le=1000)
    """Steps of one probe at most."""
    diagnosis_probe_s: float = Field(default=60.0, gt=0)
    """A probe takes fewer steps where those would take longer than this, but at least 15."""
    diagnosis_max_s: float = Field(default=3600.0, ge=1)
    """All probes of a diagnosis together, waiting for slots included; it is then judged by those
    that have ended."""
    wind_down_s: float = Field(default=300.0, gt=0)
    """How long the other members of a gang may go on after the first ended well."""
    controller_lease_s: float = Field(default=4.0, gt=0)
    """A controller that is silent for this long is replaced by another one."""
    kubeconfig: Path | None = None
    """Kubeconfig with which the controller runs pilots in Kubernetes; unset: the service account of its
    own pod. Its user has a token or a client certificate, no plugin. Pools choose a context in it."""
    router_dir: Path | None = None
    """Folder that the controller shares with HAProxy, the router of deployments: it writes HAProxy's
    configuration and lists there. `muster up` sets it where HAProxy is installed; unset: no
    deployments."""
    router_socket: Path | None = None
    """Runtime socket of HAProxy; unset: haproxy.sock in `MUSTER_ROUTER_DIR`."""
    router_host: str = "127.0.0.1"
    """Address that HAProxy listens on; 0.0.0.0 for all of them."""
    router_port: int = Field(default=8471, ge=1, le=65535)
    """Port that HAProxy listens on."""
    router_url: str | None = None
    """Where clients reach the router, behind a proxy for example; unset: its host and port. It may have a path, as in
    https://lab.example/models."""
    deployments_listen: Literal["loopback", "node"] = "loopback"
    """Where replicas listen if their deployment does not say it. `loopback`: on 127.0.0.1, for a router
    on their machine. `node`: on the address of their node."""
    controller_port: int | None = Field(default=None, ge=0, le=65535)
    """Port on which a controller answers /healthz, /readyz and /metrics; unset: on none."""
    worker_port: int | None = Field(default=None, ge=0, le=65535)
    """Port on which a Celery worker answers /healthz, /readyz and /metrics; unset: on none."""
    controller_interval_s: float = Field(default=1.0, gt=0)
    """The loops run at least this often, and at least twice in `MUSTER_HEARTBEAT_S`; hints wake them
    earlier."""
    series_max_per_trial: int = Field(default=20_000, ge=1)
    """Metric series (name × rank × attempt) one trial may have. The metric of its search always has
    room beyond that, and losses, errors and Muster's own measurements have 1,000 series."""
    sweep_interval_s: float = Field(default=30.0, gt=0)
    """How often the Celery worker looks for metrics to compact and for what has expired."""
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")
    """What prices and costs are in, as an ISO 4217 code."""
    log_retention_days: int | None = Field(default=None, ge=1)
    """Logs of trials that ended longer ago are deleted; unset: never."""
    audit_retention_days: int | None = Field(default=None, ge=1)
    """Records of the audit log that are older are removed; unset: never. What stays can still be
    verified."""
    metric_retention_days: int | None = Field(default=None, ge=1)
    """Age in days at which metrics of ended trials are downsampled for good, in series of more than
    1,000 points: some 32 buckets of 4,096 points keep their first, least, greatest and last
    point, their mean and their count. Unset: never."""
    metric_cold_days: int | None = Field(default=None, ge=1)
    """Age in days at which points of metrics of ended trials leave the database for Parquet files in
    `MUSTER_METRIC_COLD_URL`, from which charts and exports read them. Unset: never."""
    metric_cold_url: str | None = None
    """Where these files are: the absolute path of a folder that all API servers and Celery workers see,
    s3://bucket/prefix or gs://bucket/prefix. Needs the extra `cold`. Keep it set while there are files."""

    oidc_issuer: str | None = None
    """Issuer of the OpenID provider that people sign in with, such as
    https://login.example/realms/lab; unset: with passwords alone."""
    oidc_client_id: str = ""
    """Id of this server at the provider."""
    oidc_client_secret: SecretStr | None = None
    """Secret of this server at the provider; a public client has none."""
    oidc_client_secret_file: Path | None = None
    """File that holds this secret."""
    oidc_name: str = Field(default="single sign-on", min_length=1, max_length=60)
    """What the sign-in page calls the provider."""
    oidc_scopes: Texts = []
    """What is asked for; unset: openid, profile, email, groups and offline_access, as far as the provider
    says that it knows them."""
    oidc_username_claim: str = Field(default="preferred_username", min_length=1)
    """Claim that an account is named after."""
    oidc_groups_claim: str = Field(default="groups", min_length=1)
    """Claim that lists somebody's groups."""
    oidc_admin_groups: Texts = []
    """Groups of the provider whose members are administrators. If any of these three lists is set, the
    provider decides roles at every sign-in."""
    oidc_member_groups: Texts = []
    """Groups of the provider whose members are members."""
    oidc_viewer_groups: Texts = []
    """Groups of the provider whose members are viewers."""
    oidc_default_role: Literal["member", "viewer", "none"] = "member"
    """Role of who is in none of these groups; `none`: they may not sign in."""
    report_links: bool = False
    """Whether reports can be shown by a link that expires to people without an account."""
    scim_token: SecretStr | None = None
    """Token with which an identity provider manages accounts and groups by SCIM, at least 32 characters; two
    are separated by a space while one replaces the other. Unset: SCIM is off."""
    scim_token_file: Path | None = None
    """File that holds this token."""
    scim_external_id_claim: str = Field(default="sub", min_length=1)
    """Claim of the OpenID provider that equals the `externalId` of SCIM: it says which account is theirs when
    somebody signs in for the first time."""
    scim_username_claim: str = ""
    """Claim that equals the `userName` of SCIM, and that people cannot choose themselves; it says the same.
    Unset: no name is trusted."""

    smtp_host: str | None = None
    """Mail server that sends notifications by e-mail; unset: each e-mail target names its own."""
    smtp_port: int = Field(default=587, ge=1, le=65535)
    """Port of the mail server."""
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    """`tls` encrypts from the first byte (port 465 as a rule); `none` sends everything in the
    clear."""
    smtp_username: str = ""
    """User name at the mail server; unset: it is used without signing in."""
    smtp_password: SecretStr | None = None
    """Password at the mail server."""
    smtp_password_file: Path | None = None
    """File that holds this password."""
    smtp_sender: str = "muster@localhost"
    """Address that notifications by e-mail come from."""
    notify_allowed_networks: Texts = []
    """Networks that notifications may be sent to although they are not public, as a JSON list such
    as `["10.0.0.0/8"]`. Receivers at other private, loopback and link-local addresses are
    refused."""
    notify_interval_s: float = Field(default=2.0, gt=0)
    """How often the Celery worker looks for notifications that are due."""

    @field_validator("database_url")
    @classmethod
    def _is_a_database(cls, value: str) -> str:
        _refuse_other_databases(value)
        return value

    @field_validator("redis_url")
    @classmethod
    def _is_a_redis(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            _refuse_other_brokers(value.get_secret_value())
        return value

    @field_validator(
        "database_url_file",
        "redis_url_file",
        "smtp_password_file",
        "oidc_client_secret_file",
        "scim_token_file",
    )
    @classmethod
    def _can_be_read(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        text = _from_file(value)
        if text and info.field_name == "database_url_file":
            _refuse_other_databases(text)
        if text and info.field_name == "redis_url_file":
            _refuse_other_brokers(text)
        if text and info.field_name == "scim_token_file":
            _refuse_short_tokens(text)
        return value

    @field_validator("scim_token")
    @classmethod
    def _is_long(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            _refuse_short_tokens(value.get_secret_value())
        return value

    @field_validator("notify_allowed_networks")
    @classmethod
    def _are_networks(cls, value: list[str]) -> list[str]:
        for text in value:
            ip_network(text)  # raises ValueError that names the text
        return value

    @field_validator("oidc_issuer")
    @classmethod
    def _is_an_issuer(cls, value: str | None) -> str | None:
        if value is None or value == "":
            return None
        parts = urlsplit(value)
        is_near = parts.hostname in ("localhost", "127.0.0.1", "::1")
        if not parts.hostname or parts.query or parts.fragment:
            raise ValueError("must look like https://login.example/realms/lab")
        if parts.scheme != "https" and not (parts.scheme == "http" and is_near):
            raise ValueError("must begin with https://: whoever answers there says who signs in")
        return value

    @model_validator(mode="after")
    def _has_a_client(self) -> Self:
        if self.oidc_issuer is not None and not self.oidc_client_id:
            raise ValueError("MUSTER_OIDC_ISSUER needs MUSTER_OIDC_CLIENT_ID")
        return self

    @field_validator("metric_cold_url")
    @classmethod
    def _is_a_store(cls, value: str | None) -> str | None:
        if not value:
            return None
        is_place = value.startswith("/") or re.fullmatch(r"(s3|gs)://[^/@?#]+(/[^@?#]*)?", value)
        if not is_place:
            raise ValueError("must be an absolute path, s3://bucket/prefix or gs://bucket/prefix")
        return value

    @model_validator(mode="after")
    def _has_a_store(self) -> Self:
        if self.metric_cold_days is not None and self.metric_cold_url is None:
            raise ValueError("MUSTER_METRIC_COLD_DAYS needs MUSTER_METRIC_COLD_URL")
        return self

    @field_validator("router_url")
    @classmethod
    def _is_the_router(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "")
        is_place = parts.scheme in ("http", "https") and parts.hostname
        if value and not (is_place and ROUTER_PREFIX_FORM.fullmatch(parts.path.rstrip("/"))):
            raise ValueError("must look like https://models.example or https://lab.example/models")
        return value

    @field_validator("public_url")
    @classmethod
    def _is_a_place(cls, value: str | None) -> str | None:
        if value is None or value == "":
            return None
        parts = urlsplit(value)
        is_place = parts.scheme in ("http", "https") and parts.hostname
        if not is_place or parts.query or parts.fragment:
            raise ValueError("must look like https://muster.example or https://lab.example/muster")
        if not PREFIX_FORM.fullmatch(parts.path.rstrip("/")):
            raise ValueError(
                f"has the path {parts.path}, but a path such as /muster is made of letters, digits, - and _, "
                "and does not begin with one of Muster's own, such as /api"
            )
        return value

    def browser_url(self) -> str:
        """Address of the dashboard for browsers, without a slash at the end."""
        if self.public_url:
            return self.public_url.rstrip("/")
        host = "localhost" if self.host in ("0.0.0.0", "::", "127.0.0.1") else self.host  # noqa: S104
        return f"http://{host}:{self.port}"

    def path_prefix(self) -> str:
        """Return the path of the public address, such as "/muster"; "" without one."""
        return urlsplit(self.browser_url()).path

    def resolved_router_url(self) -> str | None:
        """Address of the router for clients, without a slash at the end; None without a router."""
        if self.router_dir is None:
            return None
        if self.router_url:
            return self.router_url.rstrip("/")
        everywhere = ("0.0.0.0", "::")  # noqa: S104
        host = "127.0.0.1" if self.router_host in everywhere else self.router_host
        return (
            f"http://[{host}]:{self.router_port}"
            if ":" in host
            else f"http://{host}:{self.router_port}"
        )

    def router_prefix(self) -> str:
        """Return the path of the router's address, such as "/models"; "" without one."""
        return urlsplit(self.router_url or "").path.rstrip("/")

    def is_for_this_machine_alone(self) -> bool:
        """Return whether the address above leads every other machine to itself."""
        host = urlsplit(self.browser_url()).hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return False

    @property
    def pass_interval_s(self) -> float:
        """Seconds between two passes of the controller. At least two fall between two heartbeats of a
        node: one that comes between the same two passes as the next would go unseen, and the
        silence look twice as long."""
        return min(self.controller_interval_s, self.heartbeat_s / 2)

    @property
    def own_name(self) -> str:
        """Name of the server: `server_name`, or its default; 1 to 128 characters."""
        place = self.port or f"pid-{os.getpid()}"
        return self.server_name or f"{socket.gethostname()[:100]}:{place}"

    def resolved_database_url(self) -> str:
        return _from_file(self.database_url_file) or self.database_url

    def resolved_smtp_password(self) -> str:
        given = self.smtp_password.get_secret_value() if self.smtp_password else ""
        return _from_file(self.smtp_password_file) or given

    def resolved_oidc_client_secret(self) -> str:
        given = self.oidc_client_secret.get_secret_value() if self.oidc_client_secret else ""
        return _from_file(self.oidc_client_secret_file) or given

    def resolved_scim_tokens(self) -> list[str]:
        """Return the tokens that provisioning clients may present; none: SCIM is off."""
        given = self.scim_token.get_secret_value() if self.scim_token else ""
        return (_from_file(self.scim_token_file) or given).split()

    def resolved_redis_url(self) -> str | None:
        from_file = _from_file(self.redis_url_file)
        return from_file or (self.redis_url.get_secret_value() if self.redis_url else None)


def _refuse_other_databases(url: str) -> None:
    """Raise ValueError, with the form that works, for a URL of a database that Muster cannot use."""
    scheme, separator, _ = url.partition("://")
    if separator and scheme in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        return
    if separator and scheme.startswith("postgres"):
        raise ValueError(f"write postgresql+psycopg:// for {scheme}://")
    named = f", not {scheme}://" if separator else ""
    raise ValueError(f"must be {DATABASE_FORMS}{named}")


def _refuse_other_brokers(url: str) -> None:
    """Raise ValueError for what is no URL of Redis. An empty one means that there is none."""
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in REDIS_SCHEMES and parts.port != 0
    except ValueError:  # a port that is no number
        is_right = False
    if url and not is_right:
        raise ValueError("must be a URL that begins with redis://, rediss:// or unix://")


def _refuse_short_tokens(text: str) -> None:
    """Raise ValueError for a token that somebody could guess."""
    if any(len(token) < SCIM_TOKEN_MIN for token in text.split()):
        raise ValueError(
            f"must have at least {SCIM_TOKEN_MIN} characters, such as 'openssl rand -hex 32' prints"
        )


def _from_file(path: Path | None) -> str | None:
    """Return the text of a file. Raises ValueError with the reason if it cannot be read."""
    try:
        return path.read_text().strip() if path is not None else None
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ValueError("cannot be read (it is not text)") from None


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    return Settings()


def variables_of_settings() -> list[str]:
    """Return the names of the variables that set the settings above."""
    return [f"MUSTER_{name.upper()}" for name in Settings.model_fields]


def checked_settings() -> Settings:
    """Return the settings of the environment. Raises WrongSettings, which names every wrong value and
    every misspelt variable."""
    lines = misspelt_lines(os.environ, variables_of_settings(), PREFIX)
    try:
        settings = get_settings()
    except ValidationError as error:
        lines = [*explain(error), *lines]
    if lines:
        raise WrongSettings("wrong settings\n" + "\n".join(lines))
    return settings


_SECRET = frozenset(
    {
        "database_url",
        "redis_url",
        "secrets_key",
        "smtp_password",
        "oidc_client_secret",
        "scim_token",
    }
)


def explain(error: ValidationError) -> list[str]:
    """Return one line per wrong setting: the variable, the value given, and the form it should
    have."""
    lines = []
    for problem in error.errors():
        name = ".".join(str(part) for part in problem["loc"])
        # A wrong secret is still a secret.
        value = "***" if name in _SECRET else repr(problem.get("input"))
        reason = problem["msg"].removeprefix("Value error, ")
        lines.append(f"  MUSTER_{name.upper()}={value}: {reason}")
    return lines

"""Which addresses notifications may be sent to: public ones, and networks that a setting allows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from unicodedata import normalize
from urllib.parse import unquote

Network = IPv4Network | IPv6Network

_OF_THIS_MACHINE = frozenset(
    {"", "localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"}
)
_NUMBER = re.compile(r"0x[0-9a-f]{1,40}|0[0-7]{0,40}|[1-9][0-9]{0,40}")
_NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Return networks such as "10.0.0.0/8". Raises ValueError for one that is none."""
    return tuple(ip_network(text) for text in texts)


def is_never_allowed(host: str, networks: Sequence[Network]) -> bool:
    """Return whether a host is, in any spelling, an address to which no connection may be made.

    A name that somebody's DNS resolves may lead anywhere and is False: the address is judged when the
    connection is made. `localhost` and the names below it are this machine.
    """
    name = normalize("NFKC", unquote(host)).strip().strip("[]").rstrip(".").lower()
    if name in _OF_THIS_MACHINE or name.endswith(".localhost"):
        return not any(is_allowed(own, networks) for own in ("127.0.0.1", "::1"))
    short = _ipv4_of(name)
    try:
        address = str(short or ip_address(name.partition("%")[0]))
    except ValueError:
        return False
    return not is_allowed(address, networks)


def _ipv4_of(name: str) -> IPv4Address | None:
    """Return the address that a resolver reads in one to four numbers, each decimal, octal (017) or
    hexadecimal (0x0f), the last one filling what is left (127.1, 0x7f000001); None for a name."""
    parts = name.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    *first, last = [
        int(part, 16 if part[:2] == "0x" else 8 if part[0] == "0" else 10) for part in parts
    ]
    if any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
        return None
    return IPv4Address(sum(n << 24 - 8 * at for at, n in enumerate(first)) + last)


def is_allowed(address: str, networks: Sequence[Network]) -> bool:
    """Return whether a connection to an IP address may be made.

    A public address may be used. Loopback, private, link-local (cloud metadata included), shared,
    multicast and reserved ones may be used only inside one of `networks`. An IPv6 address that
    carries an IPv4 address (mapped, 6to4, Teredo, NAT64) is judged by both. Anything that is no
    address is refused.
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if any(ip.version == network.version and ip in network for network in networks):
        return True
    inner = _embedded(ip)
    if inner:
        return all(is_allowed(str(one), networks) for one in inner)
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _embedded(ip: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that an IPv6 address stands for; [] for one that stands for none."""
    if isinstance(ip, IPv4Address):
        return []
    if ip.ipv4_mapped is not None:
        return [ip.ipv4_mapped]
    if ip.sixtofour is not None:
        return [ip.sixtofour]
    if ip.teredo is not None:
        return list(ip.teredo)
    if any(ip in network for network in _NAT64) or int(ip) >> 32 == 0:
        return [IPv4Address(int(ip) & 0xFFFFFFFF)]
    return []

"""Which addresses notifications may be sent to: public ones, and networks that a setting allows."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Network = IPv4Network | IPv6Network

_NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Return networks such as "10.0.0.0/8". Raises ValueError for one that is none."""
    return tuple(ip_network(text) for text in texts)


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

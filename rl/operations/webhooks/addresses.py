"""Which addresses a webhook may lead to. A name is resolved once, and the connection goes to the address that was checked:
a name that means another machine a moment later leads nowhere else."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
_LAST_32_BITS: Final = tuple(map(ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0/96", "::/96")))
"""Networks of IPv6 whose last 32 bits are an IPv4 address: NAT64, mapped, compatible."""


class Refused(Exception):
    """The address is not one that webhooks may go to."""


def resolve(host: str, port: int, *, allow_private: bool) -> list[str]:
    """Addresses to connect to. Raises Refused where one of them is private: a name with both kinds is a trap; OSError where
    there are none."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    for address in addresses:
        if not allow_private and not is_public(ip_address(address.partition("%")[0])):
            raise Refused(f"{host} is {address}, which is not a public address; allow_private: true permits it")
    return addresses


def is_public(address: Address) -> bool:
    """An IPv6 address that stands for IPv4 ones is what these are."""
    inner = _inside(address)
    if inner is not None:
        return all(is_public(inner_address) for inner_address in inner)
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _inside(address: Address) -> list[IPv4Address] | None:
    """The IPv4 addresses that a router or a tunnel would take it to; None where it stands for itself."""
    if isinstance(address, IPv4Address):
        return None
    if any(address in network for network in _LAST_32_BITS):
        return [IPv4Address(int(address) & 0xFFFF_FFFF)]
    if address.sixtofour:
        return [address.sixtofour]
    return list(address.teredo) if address.teredo else None

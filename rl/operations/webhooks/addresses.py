"""Which addresses a webhook may lead to. A name is resolved once, and the connection goes to the address that was checked:
a name that means another machine a moment later leads nowhere else.

The networks are those of IANA's registries, and not Python's: which of them it knows depends on its version.
https://www.iana.org/assignments/iana-ipv4-special-registry and https://www.iana.org/assignments/iana-ipv6-special-registry
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address
_NETWORKS_4 = """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24
    192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3
"""
_SPECIAL_4: Final = tuple(map(IPv4Network, _NETWORKS_4.split()))
_UNICAST: Final = IPv6Network("2000::/3")
"""All of IPv6 that is given to anybody; what is reserved, local or multicast lies outside."""
_SPECIAL_6: Final = tuple(
    map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"))
)
"""Teredo, benchmarks and what else is assigned to protocols; documentation; 6to4; a sink for wrong questions."""
_STANDS_FOR_4: Final = tuple(map(IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96")))
"""Whose last 32 bits are the IPv4 address that is meant: mapped, and what NAT64 gives to networks without IPv4."""
_ISATAP: Final = 0x5EFE
"""With or without the bit that says "universal", the upper half of an interface's id whose lower half is an IPv4 address."""


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
    """Whether it is a machine's of the internet. What leads through a tunnel to another address is not, whatever that is."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_4)
    if any(address in network for network in _STANDS_FOR_4):
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    is_isatap = int(address) >> 32 & 0xFDFF_FFFF == _ISATAP
    return address in _UNICAST and not is_isatap and not any(address in network for network in _SPECIAL_6)

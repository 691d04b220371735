"""Where a request comes from, as far as that can be trusted."""

from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final, cast

from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle


def client_address(request: HttpRequest | Request) -> str:
    """REMOTE_ADDR, or the entry of X-Forwarded-For that the outermost of NUM_PROXIES proxies wrote. May hold anything."""
    return BaseThrottle().get_ident(cast(Request, request)) or ""  # reads nothing that only one of the two has


def client_network(request: HttpRequest | Request) -> str | None:
    """The IPv4 address, or the /64 of an IPv6 one: whoever has one of these has all 2⁶⁴ of them.

    What is not an address counts as that of the connection itself; None where that has none, as behind a Unix socket."""
    return network(client_address(request)) or network(request.META.get("REMOTE_ADDR") or "")


DIGITS: Final = 16


def address_digest(request: HttpRequest | Request) -> str:
    """The same for all that comes from one network on one day (UTC), and nobody learns the network from it without
    SECRET_KEY; empty where there is none."""
    named = client_network(request)
    if named is None:
        return ""
    return salted_hmac("rl.address", f"{timezone.now():%Y-%m-%d} {named}", algorithm="sha256").hexdigest()[:DIGITS]


def network(text: str) -> str | None:
    """What ``client_network`` counts an address as; None for what is not an address."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ip_network((address, 64), strict=False).network_address)

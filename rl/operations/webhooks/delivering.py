"""Brings waiting messages to their endpoints. The queue calls it every minute; two of it at the same time share the work.

A webhook leads to no private address unless the operator permits it. A name is resolved once, and the connection goes to the
address that was checked: a name that means another machine a moment later leads nowhere else. The networks are those of
IANA's registries, and not Python's: which of them it knows depends on its version.
https://www.iana.org/assignments/iana-ipv4-special-registry and https://www.iana.org/assignments/iana-ipv6-special-registry
"""

import base64
import hashlib
import hmac
import json
import logging
import random
import secrets
import socket
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore
from django.db.models import F
from django.utils import timezone

from rl.base.errors import UsageError
from rl.models import WebhookDelivery
from rl.operations.webhooks.endpoints import Endpoint, endpoints

logger = logging.getLogger(__name__)

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


class AddressRefused(Exception):
    """The address is not one that webhooks may go to."""


def resolve(host: str, port: int, *, allow_private: bool) -> list[str]:
    """Addresses to connect to. Raises AddressRefused where one of them is private: a name with both kinds is a trap; OSError
    where there are none."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    for address in addresses:
        if not allow_private and not is_public(ip_address(address.partition("%")[0])):
            raise AddressRefused(f"{host} is {address}, which is not a public address; allow_private: true permits it")
    return addresses


def is_public(address: Address) -> bool:
    """Whether it is a machine's of the internet. What leads through a tunnel to another address is not, whatever that is."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_4)
    if any(address in network for network in _STANDS_FOR_4):
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    is_isatap = int(address) >> 32 & 0xFDFF_FFFF == _ISATAP
    return address in _UNICAST and not is_isatap and not any(address in network for network in _SPECIAL_6)


SECONDS: Final = 15.0
"""Longest time that the whole call to a webhook may take."""
MOST_BYTES: Final = 256 * 1024
"""Size of a body, at most."""


@dataclass(frozen=True, slots=True)
class WebhookReply:
    status: int | None
    """Status of HTTP; None where there was no answer, and ``error`` says why."""
    error: str = ""

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def post(
    url: str, body: bytes, headers: dict[str, str], *, allow_private: bool, seconds: float = SECONDS
) -> WebhookReply:
    """Never raises for what the network or the other side does."""
    if len(body) > MOST_BYTES:
        return WebhookReply(None, f"the message has {len(body)} bytes; {MOST_BYTES} are sent at most")
    deadline = time.monotonic() + seconds
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        addresses = resolve(parts.hostname or "", port, allow_private=allow_private)
        with httpcore.ConnectionPool(
            ssl_context=ssl.create_default_context(), network_backend=_Pinned(addresses, deadline), retries=0
        ) as pool:
            all_headers = [("host", parts.netloc), ("content-length", str(len(body))), *headers.items()]
            with pool.stream("POST", url, headers=all_headers, content=body) as response:
                return WebhookReply(response.status, "" if response.status < 300 else f"answered {response.status}")
    except AddressRefused as error:
        return WebhookReply(None, str(error))
    except (OSError, httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, UnicodeError) as error:
        return WebhookReply(None, f"{type(error).__name__}: {error}"[:500])


class _Pinned(httpcore.NetworkBackend):
    """Connects to the addresses that were checked, whatever the name means by now."""

    def __init__(self, addresses: list[str], deadline: float) -> None:
        self._addresses = addresses
        self._deadline = deadline
        self._real = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        last: Exception | None = None
        for address in self._addresses:
            try:
                stream = self._real.connect_tcp(
                    address, port, _seconds_left(self._deadline), local_address, socket_options
                )
                return _Limited(stream, self._deadline)
            except httpcore.ConnectError as error:  # the next one may answer
                last = error
        raise last or httpcore.ConnectError("no address")


class _Limited(httpcore.NetworkStream):
    """The timeout of a socket begins anew with every byte; this one does not."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _seconds_left(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _seconds_left(self._deadline))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Limited(
            self._stream.start_tls(ssl_context, server_hostname, _seconds_left(self._deadline)), self._deadline
        )

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _seconds_left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise httpcore.ReadTimeout("it took too long")
    return seconds


def signed_headers(key: bytes, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """``timestamp``: seconds since 1970, of this attempt: receivers refuse what is older than some minutes."""
    content = b".".join((message_id.encode(), str(timestamp).encode(), body))
    signature = base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}


def new_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


_HOUR = 3600
DELAYS: Final = (60, 300, 1800, 2 * _HOUR, 5 * _HOUR, 10 * _HOUR, 14 * _HOUR, 20 * _HOUR, 24 * _HOUR)
"""Seconds after each attempt that failed; after the tenth it is given up, three days after the first."""
JITTER: Final = 0.2
"""Share by which a delay varies, so that what failed together does not come together again."""
ROUND_SECONDS: Final = 100.0
"""Seconds after which a round begins no other message; the rest waits for the next."""
LEASE: Final = timedelta(minutes=5)
"""How long a message is left to whoever took it up: longer than sending can take."""
GONE: Final = 410
"""An endpoint that answers so wants no more of it."""
State = WebhookDelivery.State


def deliver_due() -> dict[str, int]:
    """One round: how many were delivered, and how many not. An endpoint that fails is left alone until the next round, so
    that it does not hold up the others."""
    counts = {"delivered": 0, "failed": 0}
    known, failing, began = endpoints(), set[str](), time.monotonic()
    due = WebhookDelivery.objects.filter(state=State.WAITING, next_attempt_at__lte=timezone.now())
    for delivery in due.order_by("next_attempt_at", "pk").iterator(chunk_size=100):
        if time.monotonic() - began > ROUND_SECONDS:
            break
        if delivery.endpoint in failing or not _take(delivery):
            continue
        if attempt(delivery, known.get(delivery.endpoint)).is_success:
            counts["delivered"] += 1
        else:
            counts["failed"] += 1
            failing.add(delivery.endpoint)
    return counts


def attempt(delivery: WebhookDelivery, endpoint: Endpoint | None) -> WebhookReply:
    """Sends one message that the caller has taken, and writes down what came of it."""
    if endpoint is None:
        answer = WebhookReply(None, "WEBHOOKS_FILE names no such endpoint any more")
    else:
        answer = send(endpoint, f"msg_{delivery.message_id.hex}", delivery.payload)
    _note(delivery, answer, given_up=endpoint is None or answer.status == GONE)
    return answer


def send(endpoint: Endpoint, message_id: str, payload: object) -> WebhookReply:
    body = json.dumps(payload, ensure_ascii=False).encode()
    try:
        headers = signed_headers(endpoint.key(), message_id, int(time.time()), body)
    except UsageError as error:
        return WebhookReply(None, str(error))
    named = {"content-type": "application/json", "user-agent": "Ratchet-Webhooks", **headers}
    return post(endpoint.url, body, named, allow_private=endpoint.allow_private)


def send_again(delivery: WebhookDelivery) -> None:
    """Has it sent with the next round, and from the first delay on, whatever became of it before."""
    type(delivery).objects.filter(pk=delivery.pk).update(
        state=State.WAITING, attempts=0, next_attempt_at=timezone.now(), delivered_at=None
    )


def _take(delivery: WebhookDelivery) -> bool:
    """One conditional update: whoever changes the row sends it."""
    mine = WebhookDelivery.objects.filter(pk=delivery.pk, state=State.WAITING, next_attempt_at=delivery.next_attempt_at)
    taken = mine.update(attempts=F("attempts") + 1, next_attempt_at=timezone.now() + LEASE)
    if taken:
        delivery.refresh_from_db()
    return bool(taken)


def _note(delivery: WebhookDelivery, answer: WebhookReply, *, given_up: bool) -> None:
    now = timezone.now()
    changes: dict[str, Any] = {"last_status": answer.status, "last_error": answer.error}
    if answer.is_success:
        changes |= {"state": State.DELIVERED, "delivered_at": now}
    elif given_up or delivery.attempts > len(DELAYS):
        changes |= {"state": State.GIVEN_UP}
        logger.warning("webhook %s to %s is given up: %s", delivery.message_id, delivery.endpoint, answer.error)
    else:
        delay = DELAYS[delivery.attempts - 1] * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311  not a secret
        changes |= {"next_attempt_at": now + timedelta(seconds=delay)}
    WebhookDelivery.objects.filter(pk=delivery.pk, state=State.WAITING).update(**changes)

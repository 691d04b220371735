"""What is public, by IANA's registries of special purposes, copied by hand: first, some and last address of each."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest

from rl.operations.webhooks.delivering import is_public

SPECIAL_IPV4 = {
    "0.0.0.0/8": "this network",
    "0.0.0.0/32": "this host on this network",
    "10.0.0.0/8": "private use",
    "100.64.0.0/10": "shared address space",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link local, and the metadata of clouds",
    "172.16.0.0/12": "private use",
    "192.0.0.0/24": "IETF protocol assignments",
    "192.0.0.0/29": "IPv4 service continuity prefix",
    "192.0.0.8/32": "IPv4 dummy address",
    "192.0.0.9/32": "port control protocol anycast",
    "192.0.0.10/32": "traversal using relays around NAT anycast",
    "192.0.0.170/31": "NAT64/DNS64 discovery",
    "192.0.2.0/24": "documentation (TEST-NET-1)",
    "192.31.196.0/24": "AS112-v4",
    "192.52.193.0/24": "AMT",
    "192.88.99.0/24": "deprecated (6to4 relay anycast)",
    "192.88.99.2/32": "6a44 relay anycast",
    "192.168.0.0/16": "private use",
    "192.175.48.0/24": "direct delegation AS112 service",
    "198.18.0.0/15": "benchmarking",
    "198.51.100.0/24": "documentation (TEST-NET-2)",
    "203.0.113.0/24": "documentation (TEST-NET-3)",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
    "255.255.255.255/32": "limited broadcast",
}
SPECIAL_IPV6 = {
    "::1/128": "loopback",
    "::/128": "unspecified",
    "::/96": "IPv4-compatible, deprecated",
    "64:ff9b:1::/48": "IPv4-IPv6 translation, local use",
    "100::/64": "discard only",
    "100:0:0:1::/64": "dummy prefix",
    "2001::/23": "IETF protocol assignments",
    "2001::/32": "Teredo",
    "2001:1::1/128": "port control protocol anycast",
    "2001:1::2/128": "traversal using relays around NAT anycast",
    "2001:1::3/128": "DNS-SD service registration protocol anycast",
    "2001:2::/48": "benchmarking",
    "2001:3::/32": "AMT",
    "2001:4:112::/48": "AS112-v6",
    "2001:10::/28": "deprecated (ORCHID)",
    "2001:20::/28": "ORCHIDv2",
    "2001:30::/28": "drone remote ID",
    "2001:db8::/32": "documentation",
    "2002::/16": "6to4",
    "2620:4f:8000::/48": "direct delegation AS112 service",
    "3fff::/20": "documentation",
    "5f00::/16": "segment routing identifiers",
    "fc00::/7": "unique local",
    "fe80::/10": "link local unicast",
    "fec0::/10": "site local, deprecated",
    "ff00::/8": "multicast",
    "200::/7": "reserved (OSI)",
    "4000::/2": "reserved",
    "8000::/2": "reserved",
    "e000::/4": "reserved",
}
PUBLIC_IPV4 = [
    *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.215.14", "100.63.255.255", "100.128.0.0"),
    *("126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0"),
    *("191.255.255.255", "192.0.1.0", "192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0"),
    *("198.17.255.255", "198.20.0.0", "203.0.112.255", "203.0.114.0", "223.255.255.255"),
]
PUBLIC_IPV6 = [
    *("2001:200::1", "2001:4860:4860::8888", "2001:db7:ffff::1", "2001:db9::1", "2003::1", "2400:cb00::1"),
    *("2606:4700:4700::1111", "2620:4f:7fff::1", "2620:4f:8001::1", "2a00:1450::1", "2c0f::1"),
    "2a00:1450::5efd:a00:1",
]


@pytest.mark.parametrize("network", [*SPECIAL_IPV4, *SPECIAL_IPV6])
def test_no_special_address_is_public(network: str):
    special = ip_network(network)
    middle = special.network_address + special.num_addresses // 3
    for address in (special.network_address, middle, special.broadcast_address):
        assert not is_public(address), f"{address} of {network}"


@pytest.mark.parametrize("address", [*PUBLIC_IPV4, *PUBLIC_IPV6])
def test_its_neighbours_are(address: str):
    assert is_public(ip_address(address))


def embedding(inner: IPv4Address) -> dict[str, IPv6Address]:
    """Every way to write an IPv4 address as one of IPv6, by the RFC that says so."""
    number, public = int(inner), int(IPv6Address("2a00:1450:4001:801::"))
    ways = {
        "mapped, 4291": (0xFFFF << 32) | number,
        "well-known NAT64, 6052": (0x64_FF9B << 96) | number,
        "compatible, 4291": number,
        "translated, 2765": (0xFFFF << 48) | number,
        "local NAT64 of /96, 8215": (0x64_FF9B_0001 << 80) | number,
        "local NAT64 of /48, 8215": (0x64_FF9B_0001 << 80) | (number >> 16 << 64) | ((number & 0xFFFF) << 40),
        "6to4, 3056": (0x2002 << 112) | (number << 80) | 1,
        "the server of Teredo, 4380": (0x2001_0000 << 96) | (number << 64),
        "the client of Teredo, 4380": (0x2001_0000 << 96) | (0x0808_0808 << 64) | (number ^ 0xFFFF_FFFF),
        "ISATAP, 5214": public | (0x5EFE << 32) | number,
        "ISATAP with the universal bit, 5214": public | (0x0200_5EFE << 32) | number,
        "ISATAP of this link, 5214": (0xFE80 << 112) | (0x5EFE << 32) | number,
    }
    return {way: IPv6Address(address) for way, address in ways.items()}


@pytest.mark.parametrize("inner", ["127.0.0.1", "10.0.0.5", "169.254.169.254", "192.168.1.1", "100.64.0.1", "0.0.0.0"])
def test_a_private_address_inside_of_another_leads_nowhere(inner: str):
    for way, address in embedding(IPv4Address(inner)).items():
        assert not is_public(address), f"{way}: {address}"


def test_a_public_one_is_reached_where_no_tunnel_is_needed():
    reached = {way for way, address in embedding(IPv4Address("8.8.8.8")).items() if is_public(address)}
    assert reached == {"mapped, 4291", "well-known NAT64, 6052"}

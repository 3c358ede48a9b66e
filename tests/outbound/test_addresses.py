"""The address guard against every notation of attacks 57 and 58."""

from __future__ import annotations

import ipaddress

import pytest

from identity.outbound.addresses import check_url, forbidden_port, forbidden_reason

REFUSED_URLS = [
    "http://127.0.0.1/",
    "http://127.1/",
    "http://0x7f.1/",
    "http://0x7f000001/",
    "http://2130706433/",
    "http://0177.0.0.1/",
    "http://1.1.1.1.1/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::a9fe:a9fe]/",
    "http://[2002:7f00:1::]/",
    "http://[::127.0.0.1]/",
    "http://[::5efe:10.0.0.1]/",
    "http://[2600:1:2:3:0:5efe:10.0.0.1]/",
    "http://[2600:1:2:3:200:5efe:10.0.0.1]/",
    "http://[2001:0::]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[fec0::1]/",
    "http://[fd00::1]/",
    "http://[fe80::1]/",
    "http://[fe80::1%eth0]/",
    "http://[fe80::1%25eth0]/",
    "http://[ff02::1]/",
    "http://[100::1]/",
    "http://[5f00::1]/",
    "http://[4000::1]/",
    "http://0.0.0.0/",
    "http://10.1.2.3/",
    "http://100.64.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://172.16.0.1/",
    "http://192.0.0.1/",
    "http://192.0.2.1/",
    "http://192.88.99.1/",
    "http://192.168.1.1/",
    "http://198.18.0.1/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://168.63.129.16/",
    "http://localhost/",
    "http://LOCALHOST:8080/",
    "http://receiver.localhost/",
    "http://metadata.google.internal/",
    "http://Metadata.Google.Internal/",
    "http://metadata/",
    "http://example.com./",
    "http://127.0.0.1./",
    "http://user@example.com/",
    "http://user:secret@example.com/",
    "http://example.com@127.0.0.1/",
    "http://127%2e0.0.1/",
    "http://ⓛocalhost/",
    "http://127。0。0。1/",
    "http://example.com\\@127.0.0.1/",
    "http://exam\tple.com/",
    "http://example.com/\r\nHost: evil",
    " http://example.com/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "javascript:alert(1)",
    "//example.com/",
    "/path",
    "example.com",
    "http:example.com",
    "http:/example.com",
    "http:///path",
    "http://",
    "",
    "http://example.com/#fragment",
    "http://example.com/#",
    "http://example.com:/",
    "http://example.com:0/",
    "http://example.com:25/",
    "http://example.com:6379/",
    "http://example.com:11211/",
    "http://example.com:27017/",
    "http://example.com:65536/",
    "http://example.com:-80/",
    "http://example.com:+80/",
    "http://example.com:8_0/",
    "http://[::1/",
    "http://exa[mple.com/",
    "http://-example.com/",
    "http://example..com/",
    "http://example.com/" + "a" * 9000,
]


@pytest.mark.requirement("attack-57", "webhooks-15.3-3")
@pytest.mark.parametrize("url", REFUSED_URLS)
def test_attack_57_url_that_leads_inside_is_refused_at_save(url: str) -> None:
    assert check_url(url, []) is not None


@pytest.mark.requirement("webhooks-15.3-3")
@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/hook",
        "http://example.com:8080/hook?a=b&c=%20d",
        "HTTPS://EXAMPLE.COM",
        "http://mygameserver.local:7001/fusionauth-webhook",
        "http://8.8.8.8/",
        "http://[2606:4700::1111]:8443/",
        "http://[::ffff:8.8.8.8]/",
        "https://xn--bcher-kva.example.com/",
        "https://under_score.example.com/",
    ],
)
def test_public_url_passes(url: str) -> None:
    assert check_url(url, []) is None


@pytest.mark.requirement("webhooks-15.3-3")
@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("127.0.0.1", "127.0.0.0/8"),
        ("::ffff:127.0.0.1", "127.0.0.0/8"),
        ("10.1.2.3", "10.1.2.0/24"),
        ("fd12::1", "fd12::/16"),
        ("fe80::1%eth0", "fe80::/10"),
        ("169.254.169.254", "169.254.169.254/32"),
    ],
)
def test_allowed_network_lets_an_address_through(address: str, network: str) -> None:
    assert forbidden_reason(address, []) is not None
    assert forbidden_reason(address, [ipaddress.ip_network(network)]) is None


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.170.23",
        "169.254.42.42",
        "169.254.0.23",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::169.254.169.254",
        "2002:a9fe:a9fe::1",
        "168.63.129.16",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd00:42::42",
        "fd20:ce::254",
    ],
)
def test_wide_allowed_network_does_not_open_cloud_metadata(address: str) -> None:
    everything = [ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")]
    assert forbidden_reason(address, everything) is not None


def test_allowed_network_of_the_other_family_does_not_match() -> None:
    assert forbidden_reason("127.0.0.1", [ipaddress.ip_network("::/0")]) is not None


def test_localhost_passes_where_loopback_is_allowed() -> None:
    assert check_url("http://localhost:9000/hook", [ipaddress.ip_network("127.0.0.0/8")]) is None


@pytest.mark.requirement("attack-57")
def test_allowed_network_does_not_open_dangerous_ports() -> None:
    assert check_url("http://127.0.0.1:6379/", [ipaddress.ip_network("127.0.0.0/8")]) is not None
    assert forbidden_port(6379) is not None
    assert forbidden_port(8443) is None


def test_invalid_address_is_rejected_at_connect() -> None:
    assert forbidden_reason("/run/some.sock", []) is not None

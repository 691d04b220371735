"""One POST goes where the operator said, to an address that was checked, and is over in time."""

import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from rl.operations.webhooks import delivering
from rl.operations.webhooks.delivering import MOST_BYTES, new_secret, post, signed_headers
from tests.missing import missing
from tests.operations.webhooks.receiver import SECRET, Receiver

pytestmark = pytest.mark.process


def test_the_official_library_verifies_the_signature(listener: Receiver):
    body = json.dumps({"type": "run.finished", "data": {"reason": "é, 你好"}}, ensure_ascii=False).encode()
    headers = signed_headers(b"s" * 32, "msg_1", int(time.time()), body)
    assert post(listener.url, body, headers, allow_private=True).is_success
    (_, got, sent) = listener.got[0]
    assert Webhook(SECRET).verify(sent, got)["type"] == "run.finished"
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(sent + b" ", got)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(sent, got)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(sent, {**got, "webhook-id": "msg_2"})


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::1]", "[::ffff:127.0.0.1]"]
)
def test_nothing_private_is_connected_to_unless_the_operator_says_so(listener: Receiver, host: str):
    answer = post(listener.url.replace("127.0.0.1", host), b"{}", {}, allow_private=False)
    assert answer.status is None
    assert "not a public address" in answer.error
    assert listener.got == []


def resolving(monkeypatch, *answers: list[str]) -> list[str]:
    """``hooks.example`` means these addresses, one list after the other; the names that were asked for."""
    asked, real, left = [], socket.getaddrinfo, list(answers)

    def getaddrinfo(host, port, *args, **kwargs):
        if host != "hooks.example":
            return real(host, port, *args, **kwargs)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in left.pop(0)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


def test_a_name_is_resolved_once_and_the_address_that_was_checked_is_used(listener: Receiver, monkeypatch):
    asked = resolving(monkeypatch, ["127.0.0.1"])
    url = listener.url.replace("127.0.0.1", "hooks.example")
    assert post(url, b"{}", {}, allow_private=True).is_success
    assert asked == ["hooks.example"]
    assert listener.got[0][1]["host"].startswith("hooks.example:")


def test_one_private_address_among_public_ones_is_a_trap(listener: Receiver, monkeypatch):
    resolving(monkeypatch, ["8.8.8.8", "127.0.0.1"])
    with pytest.raises(delivering.AddressRefused, match=r"hooks\.example is 127\.0\.0\.1"):
        delivering.resolve("hooks.example", 443, allow_private=False)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(listener: Receiver, status: int):
    listener.status, listener.headers = status, {"location": "/elsewhere"}
    answer = post(listener.url, b"{}", {}, allow_private=True)
    assert (answer.status, answer.is_success) == (status, False)
    assert [path for path, _, _ in listener.got] == ["/hook"]


def test_a_proxy_of_the_environment_is_not_used(listener: Receiver, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert post(listener.url, b"{}", {}, allow_private=True).is_success


def test_an_answer_that_trickles_in_is_cut_off():
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()
        threading.Thread(target=_trickle, args=(server, ended), daemon=True).start()
        answer = post(f"http://127.0.0.1:{server.getsockname()[1]}/", b"{}", {}, allow_private=True, seconds=0.5)
        ended.set()
    assert answer.status is None
    assert "Timeout" in answer.error


def _trickle(server: socket.socket, ended: threading.Event) -> None:
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while not ended.wait(0.05):
            try:
                connection.sendall(b"x")
            except OSError:
                return


def test_what_nobody_answers_is_an_error_and_no_exception(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert "Connect" in post(f"http://127.0.0.1:{port}/", b"{}", {}, allow_private=True).error
    assert post("https://no-such-host.invalid/", b"{}", {}, allow_private=False).status is None
    assert "bytes" in post("https://x.example/", b"x" * (MOST_BYTES + 1), {}, allow_private=True).error


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path):
    if shutil.which("openssl") is None:
        missing("openssl", "openssl")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    files = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "cert")]
    subprocess.run([*made, *files, "-subj", "/CN=localhost"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_greet, args=(context, server), daemon=True).start()
        answer = post(f"https://localhost:{server.getsockname()[1]}/", b"{}", {}, allow_private=True)
    assert "certificate verify failed" in answer.error.lower()


def _greet(context: ssl.SSLContext, server: socket.socket) -> None:
    connection, _ = server.accept()
    try:
        context.wrap_socket(connection, server_side=True).close()
    except OSError:
        connection.close()

"""How the API server is reached: certificates that are checked, and tokens that are replaced."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from elastune.providers.kubernetes.api import (
    ClusterAccess,
    KubernetesAccessError,
    KubernetesApi,
    KubernetesRefusedError,
    find_access,
)
from elastune.providers.kubernetes.calls import RayClusterCalls
from tests.providers.contract import status
from tests.providers.kubernetes.stage import PodStage
from tests.providers.kubernetes.stand_in import CLUSTER, GROUP, NAMESPACE, TOKEN, StandIn, serving
from tests.waiting import wait_until


def write_certificate(folder: Path) -> Path:
    """Of 127.0.0.1, by its own authority, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stand-in")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


def write_config(path: Path, server: str, user: dict[str, Any], **cluster: Any) -> None:
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


def read_group() -> str:
    return RayClusterCalls(KubernetesApi(find_access()), CLUSTER, GROUP).group().name


def test_the_certificate_of_the_server_is_checked(config: Path, tmp_path: Path) -> None:
    own = write_certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(own)
    authority = own.read_text().partition("-----BEGIN PRIVATE")[0]
    known = {"certificate-authority-data": base64.b64encode(authority.encode()).decode()}
    with serving(StandIn(), tls) as address:
        write_config(config, address, {"token": TOKEN}, **known)
        assert read_group() == GROUP
        write_config(config, address, {"token": TOKEN})
        with pytest.raises(
            KubernetesAccessError, match=r"is not trusted .*expected the certificate-authority"
        ):
            read_group()
        write_config(config, address.replace("127.0.0.1", "localhost"), {"token": TOKEN}, **known)
        with pytest.raises(KubernetesAccessError, match=r"is not trusted .*localhost"):
            read_group()


@pytest.mark.parametrize(
    ("user", "cluster", "told"),
    [
        ({"token": TOKEN}, {"insecure-skip-tls-verify": True}, "insecure-skip-tls-verify is not supported"),
        ({"token": TOKEN}, {"proxy-url": "http://proxy:3128"}, "proxy-url is not supported"),
        ({"auth-provider": {"name": "gcp"}}, {}, "auth-provider is not supported; .*exec command"),
    ],
)
def test_what_a_kubeconfig_says_and_is_not_supported_is_named(
    user: dict[str, Any], cluster: dict[str, Any], told: str, config: Path
) -> None:
    write_config(config, "https://127.0.0.1:1", user, **cluster)
    with pytest.raises(KubernetesRefusedError, match=told):
        find_access()


def test_a_printed_token_is_used_until_it_expires_or_is_refused(config: Path, tmp_path: Path) -> None:
    """The command counts its calls, and its token is the one of the last call."""
    count = tmp_path / "count"
    program = (
        "import json, pathlib; p = pathlib.Path({path!r}); n = len(p.read_text()) if p.exists() else 0;"
        "p.write_text('x' * (n + 1));"
        "print(json.dumps({{'status': {{'token': 'token-%d' % n, 'expirationTimestamp': {end!r}}}}}))"
    )
    stand_in = StandIn(token="token-0")
    for end, calls in (("2999-01-01T00:00:00Z", 1), ("2001-01-01T00:00:00Z", 3)):
        count.unlink(missing_ok=True)
        args = ["-c", program.format(path=str(count), end=end)]
        command = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": args}
        with serving(stand_in) as address:
            write_config(config, address, {"exec": command})
            calls_of = RayClusterCalls(KubernetesApi(find_access()), CLUSTER, GROUP)
            for number in range(3):
                stand_in.token = "token-0" if calls == 1 else f"token-{number}"
                calls_of.group()
            assert len(count.read_text()) == calls
            if calls == 1:
                stand_in.token = "token-1"  # the old one is revoked before it expires
                with pytest.raises(KubernetesAccessError, match="Unauthorized"):
                    calls_of.group()
                assert calls_of.group().name == GROUP


def test_a_token_that_is_not_accepted_for_a_while_does_not_end_the_run(
    pod_stage: PodStage, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastune.providers.kubernetes.broker._ERROR_LOOK_S", 0.05)
    provider = pod_stage.provider()
    provider.request("a", 1)
    pod_stage.settle(provider)
    stand_in.token = "replaced"
    provider.request("b", 1)
    wait_until(lambda: provider._broker is not None and provider._broker.trouble)
    assert provider.broken is None
    stand_in.token = TOKEN
    assert len(status(pod_stage.settle(provider), "b").granted) == 1


def test_a_wrong_token_at_the_start_is_told_at_once(stand_in: StandIn) -> None:
    stand_in.token = "another"
    with serving(stand_in) as address, pytest.raises(Exception, match="cannot be used: Unauthorized"):
        PodStage(stand_in, address).provider()
    assert json.dumps(stand_in.annotations) == "{}"


class Redirecting(BaseHTTPRequestHandler):
    """Sends the first request on to itself, and keeps the tokens that it sees."""

    tokens: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.tokens.append(self.headers["Authorization"])
        if len(self.tokens) == 1:
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the base class
        """Nothing on stderr."""


def test_a_token_does_not_follow_a_redirection() -> None:
    with HTTPServer(("127.0.0.1", 0), Redirecting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        access = ClusterAccess(
            server=f"http://127.0.0.1:{server.server_port}", namespace=NAMESPACE, token=lambda: "secret"
        )
        try:
            assert KubernetesApi(access).get("/api") == {}
        finally:
            server.shutdown()
    assert Redirecting.tokens == ["Bearer secret", None]

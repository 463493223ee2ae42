"""JSON from and to the API server of a Kubernetes cluster, and how it is reached.

Inside a cluster that is the service account of the pod; elsewhere a kubeconfig with a token, a client
certificate or a command that prints a credential. There is no library: four paths and two verbs are used.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_CALL_S = 20.0
_LOGIN_S = 60.0
_BUSY, _CONFLICT, _LOGIN = (408, 410, 429), 409, 401
_FRESH_S = 60.0
"""A credential that a command printed is replaced so long before it expires."""
_KNOWN_USER = (
    "token", "tokenFile", "exec", "client-certificate", "client-certificate-data", "client-key",
    "client-key-data",
)  # fmt: skip


class KubernetesError(Exception):
    """The API server refused, or did not answer."""


class KubernetesBusyError(KubernetesError):
    """No answer: the call may have been executed. Look, then try again."""


class KubernetesConflictError(KubernetesError):
    """Another client has changed the object since it was read."""


class KubernetesRefusedError(KubernetesError):
    """It would be refused again. `code`: of HTTP; 0: it was not asked."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class KubernetesAccessError(KubernetesRefusedError):
    """The token or the certificate is not accepted: at first an error of the user, and later one that may
    pass, because both are replaced from time to time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """Where the API server is. `token` is called for every request, because tokens are replaced."""

    server: str
    namespace: str
    token: Callable[[], str | None]
    renew: Callable[[], None] = lambda: None
    """The last token was not accepted."""
    tls: ssl.SSLContext | None = None


class KubernetesApi:
    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self.namespace = access.namespace

    def get(self, path: str) -> Any:
        return self._call("GET", path, None, None)

    def json_patch(self, path: str, operations: list[dict[str, Any]]) -> Any:
        return self._call("PATCH", path, operations, "application/json-patch+json")

    def merge_patch(self, path: str, changes: Mapping[str, Any]) -> Any:
        return self._call("PATCH", path, changes, "application/merge-patch+json")

    def _call(self, verb: str, path: str, body: object, kind: str | None) -> Any:
        access, headers = self._access, {"Accept": "application/json"}
        if kind is not None:
            headers["Content-Type"] = kind
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(access.server + path, data, headers, method=verb)  # noqa: S310
        if (token := access.token()) is not None:
            # Not a header of the request itself: those are sent on to wherever an answer redirects.
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=_CALL_S, context=access.tls) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == _LOGIN:
                    access.renew()
                raise _error_of(error, path) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise KubernetesAccessError(
                    f"the certificate of {access.server} is not trusted ({reason.verify_message}); expected "
                    "the certificate-authority of the cluster in the kubeconfig"
                ) from None
            raise KubernetesBusyError(f"{access.server} does not answer: {error}") from None


def _error_of(error: urllib.error.HTTPError, path: str) -> KubernetesError:
    try:
        said = json.load(error)["message"]
    except (OSError, ValueError, KeyError, TypeError):
        said = error.reason
    text = f"{said} (HTTP {error.code}, {path})"
    if error.code == _CONFLICT:
        return KubernetesConflictError(text)
    if error.code == _LOGIN:
        return KubernetesAccessError(text, error.code)
    is_busy = error.code >= 500 or error.code in _BUSY
    return KubernetesBusyError(text) if is_busy else KubernetesRefusedError(text, error.code)


def find_access(context: str | None = None, namespace: str | None = None) -> ClusterAccess:
    """Raises `KubernetesRefusedError` if no cluster is set up here."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if host and context is None and (_ACCOUNT / "token").exists():
        own = (_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
        return ClusterAccess(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
            namespace=namespace or own,
            token=lambda: (_ACCOUNT / "token").read_text(encoding="utf-8").strip(),
            tls=ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt")),
        )
    path = Path(os.environ.get("KUBECONFIG", "").partition(os.pathsep)[0] or "~/.kube/config").expanduser()
    if not path.exists():
        raise KubernetesRefusedError(f"this is no pod with a service account, and there is no {path}")
    try:
        return _from_kubeconfig(yaml.safe_load(path.read_text(encoding="utf-8")), path, context, namespace)
    except (KeyError, TypeError, StopIteration, OSError, ssl.SSLError, yaml.YAMLError) as error:
        raise KubernetesRefusedError(f"{path} cannot be used: {type(error).__name__}: {error}") from None


def _from_kubeconfig(config: Any, path: Path, context: str | None, namespace: str | None) -> ClusterAccess:
    chosen = _named(config["contexts"], context or config["current-context"])["context"]
    cluster = _named(config["clusters"], chosen["cluster"])["cluster"]
    user = _named(config.get("users") or [], chosen["user"])["user"] if chosen.get("user") else {}
    _refuse_unknown(cluster, user, path)
    login = LoginCommand(user["exec"]) if "exec" in user else None
    return ClusterAccess(
        server=cluster["server"].rstrip("/"),
        namespace=namespace or chosen.get("namespace") or "default",
        token=login.token if login else _token_of(user, path.parent),
        renew=login.renew if login else lambda: None,
        tls=_tls_of(cluster, user, path.parent) if cluster["server"].startswith("https") else None,
    )


def _refuse_unknown(cluster: Mapping[str, Any], user: Mapping[str, Any], path: Path) -> None:
    """What would silently lead elsewhere, or nowhere."""
    ignored = [name for name in ("proxy-url", "tls-server-name") if cluster.get(name)]
    ignored += ["insecure-skip-tls-verify"] if cluster.get("insecure-skip-tls-verify") else []
    if user and not any(name in user for name in _KNOWN_USER):
        ignored += sorted(user)
    if ignored:
        raise KubernetesRefusedError(
            f"{path}: {', '.join(ignored)} is not supported; expected a certificate-authority, and a token, "
            "tokenFile, exec command or client certificate"
        )


def _named(entries: list[Any], name: str) -> Any:
    return next(entry for entry in entries if entry["name"] == name)


def _token_of(user: Mapping[str, Any], folder: Path) -> Callable[[], str | None]:
    if "tokenFile" in user:
        return lambda: (folder / user["tokenFile"]).read_text(encoding="utf-8").strip()
    return lambda: user.get("token")


class LoginCommand:
    """The command that a cloud's login installs. It takes a second, so its token is used until it expires."""

    def __init__(self, plugin: Mapping[str, Any]) -> None:
        self._plugin = plugin
        self._token = ""
        self._until = 0.0

    def token(self) -> str:
        if time.time() >= self._until:
            self._token, self._until = _credential(self._plugin)
        return self._token

    def renew(self) -> None:
        self._until = 0.0


def _credential(plugin: Mapping[str, Any]) -> tuple[str, float]:
    """A token, and until when it need not be asked for again."""
    more = {each["name"]: each["value"] for each in plugin.get("env") or []}
    request = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    try:
        done = subprocess.run(  # noqa: S603  named by the user's own kubeconfig
            [plugin["command"], *(plugin.get("args") or [])],
            env={**os.environ, **more, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            capture_output=True,
            text=True,
            timeout=_LOGIN_S,
            check=True,
        )
        status = json.loads(done.stdout)["status"]
        expires = status.get("expirationTimestamp")
        until = 0.0 if expires is None else datetime.fromisoformat(expires).timestamp() - _FRESH_S
        return str(status["token"]), until
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        raise KubernetesRefusedError(f"{plugin['command']} printed no token: {error}") from None


def _tls_of(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    tls = ssl.create_default_context()
    if (authority := _data(cluster, "certificate-authority", folder)) is not None:
        tls = ssl.create_default_context(cadata=authority)
    certificate, key = _data(user, "client-certificate", folder), _data(user, "client-key", folder)
    if certificate is not None and key is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # ssl reads files only
            file.write(f"{certificate}\n{key}\n")
            file.flush()
            tls.load_cert_chain(file.name)
    return tls


def _data(values: Mapping[str, Any], name: str, folder: Path) -> str | None:
    if f"{name}-data" in values:
        return base64.b64decode(values[f"{name}-data"]).decode()
    return (folder / values[name]).read_text(encoding="utf-8") if name in values else None

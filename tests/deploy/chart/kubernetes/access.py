"""Who may do what at the API server: one certificate, and a token for each of the programs."""

import json
import secrets
import subprocess
from pathlib import Path

from tests.deploy.chart.kubernetes.networks import CONTROL_ADDRESS

SERVER = f"https://{CONTROL_ADDRESS}:6443"
CONTEXT = "penstock-test"
FIRST_SERVICE = "10.133.0.1"
_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost")


class Access:
    """The certificate is the API server's, and its own authority. Its key signs the tokens of service accounts, too."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.certificate, self.key = directory / "server.crt", directory / "server.key"
        self.tokens = directory / "tokens.csv"
        self._lines: list[str] = []

    def make_certificate(self) -> None:
        addresses = (CONTROL_ADDRESS, FIRST_SERVICE, "127.0.0.1")
        names = ",".join([*(f"DNS:{name}" for name in _NAMES), *(f"IP:{address}" for address in addresses)])
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=penstock-test"]
        files = ["-keyout", str(self.key), "-out", str(self.certificate)]
        subprocess.run([*command, "-addext", f"subjectAltName={names}", *files], check=True, capture_output=True, timeout=60)

    def grant(self, user: str, *groups: str) -> Path:
        """The kubeconfig of a user. The API server reads the tokens when it starts."""
        token = secrets.token_hex(16)
        self._lines.append(f'{token},{user},{user},"{",".join(groups)}"\n')
        self.tokens.write_text("".join(self._lines), encoding="utf-8")
        path = self._directory / f"{user.replace(':', '-')}.kubeconfig"
        cluster = {"server": SERVER, "certificate-authority": str(self.certificate)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CONTEXT, "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": user}}],
            "current-context": CONTEXT,
        }
        path.write_text(json.dumps(config), encoding="utf-8")
        path.chmod(0o600)
        return path

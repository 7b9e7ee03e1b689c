"""The init container that reads the zone of its node, against an API server of the test's own."""

import json
import os
import ssl
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.deploy.chart.rendering import CHART
from tests.support.requirements import require

TOKEN = "token of the pod's account"
LABELS = {"topology.kubernetes.io/zone": "zone-b"}


class ApiServer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        allowed = self.headers["Authorization"] == f"Bearer {TOKEN}" and self.path == "/api/v1/nodes/node-7"
        self.send_response(200 if allowed else 403)
        self.end_headers()
        self.wfile.write(json.dumps({"metadata": {"name": "node-7", "labels": LABELS}}).encode())

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that Kubernetes gives a pod, and the key of the server."""
    require("openssl")
    folder = tmp_path_factory.mktemp("account")
    words = "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=k -addext subjectAltName=IP:127.0.0.1 -keyout key -out ca.crt"
    subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True, timeout=60)
    (folder / "token").write_text(TOKEN, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def port(account: Path) -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), ApiServer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(account / "ca.crt", account / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield server.server_address[1]
    server.shutdown()
    serving.join()
    server.server_close()


def read_zone(account: Path, port: int, tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "settings.toml").write_text('log_level = "debug"\n', encoding="utf-8")
    given = {
        **os.environ,
        "SERVICE_ACCOUNT_DIR": str(account),
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(port),
        "NODE_NAME": "node-7",
        "NODE_LABEL": "topology.kubernetes.io/zone",
        **environment,
    }
    files = (CHART / "files" / "node_zone.py", tmp_path / "settings.toml", tmp_path / "written.toml")
    command = [sys.executable, *map(str, files)]
    return subprocess.run(command, env=given, capture_output=True, encoding="utf-8", timeout=60)


def test_the_zone_of_the_node_becomes_the_rack(account: Path, port: int, tmp_path: Path) -> None:
    done = read_zone(account, port, tmp_path)
    assert done.returncode == 0, done.stderr
    assert tomllib.loads((tmp_path / "written.toml").read_text(encoding="utf-8")) == {"log_level": "debug", "rack": "zone-b"}


def test_a_node_without_the_label_stops_the_pod_in_one_sentence(account: Path, port: int, tmp_path: Path) -> None:
    done = read_zone(account, port, tmp_path, NODE_LABEL="rack")
    assert done.returncode == 1
    assert done.stderr == "node node-7 has no label rack: label it, or install with rack.source=none\n"


def test_an_account_that_may_not_read_the_node_is_told(account: Path, port: int, tmp_path: Path) -> None:
    done = read_zone(account, port, tmp_path, NODE_NAME="node-8")
    assert done.returncode == 1
    assert done.stderr.startswith(f"node node-8 cannot be read at https://127.0.0.1:{port}: ")
    assert "Traceback" not in done.stderr

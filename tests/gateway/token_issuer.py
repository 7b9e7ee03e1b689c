"""An issuer of tokens for OAUTHBEARER: its keys, its key set, and an https server that has it."""

import json
import ssl
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from jwt import PyJWS
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER, AUDIENCE = "https://issuer.example", "penstock"


@cache
def private_key(kind: str) -> Any:
    """`RSA`, `RSA 1024`, `RSA other`, `P-256`, `P-384` or `Ed25519`. Made once: RSA keys take a while."""
    match kind:
        case "P-256":
            return ec.generate_private_key(ec.SECP256R1())
        case "P-384":
            return ec.generate_private_key(ec.SECP384R1())
        case "Ed25519":
            return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65_537, 1024 if kind == "RSA 1024" else 2048)


def public_jwk(kind: str, key_id: str | None = None, **more: object) -> dict[str, object]:
    family = RSAAlgorithm if kind.startswith("RSA") else OKPAlgorithm if kind == "Ed25519" else ECAlgorithm
    jwk: dict[str, object] = json.loads(family.to_jwk(private_key(kind).public_key()))
    jwk.pop("key_ops", None)
    return {**jwk, **({"kid": key_id} if key_id is not None else {}), **more}


def key_set(*jwks: dict[str, object]) -> bytes:
    return json.dumps({"keys": jwks}).encode()


def claims(now_s: float | None = None, **changed: object) -> dict[str, object]:
    """None removes a claim."""
    now_s = time.time() if now_s is None else now_s
    usual = {"sub": "u", "iat": int(now_s), "exp": int(now_s) + 3600, "iss": ISSUER, "aud": AUDIENCE}
    return {name: value for name, value in {**usual, **changed}.items() if value is not None}


def token(content: dict[str, object] | None = None, kind: str = "RSA", algorithm: str = "RS256", key_id: str | None = "k") -> str:
    headers = {"kid": key_id} if key_id is not None else None
    payload = json.dumps(claims() if content is None else content).encode()
    return PyJWS().encode(payload, private_key(kind), algorithm, headers)


def forged(header: object, content: object, signature: bytes = b"") -> str:
    """With any header and claims."""
    parts = (part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, content))
    return b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in (*parts, signature)).decode()


def first_message(text: str, acting_as: str = "") -> bytes:
    return f"n,{acting_as},\x01auth=Bearer {text}\x01\x01".encode()


class KeyServer:
    """The endpoint of a key set."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.document = key_set(public_jwk("RSA", "k"))
        self.status = 200
        self.asked = 0


@contextmanager
def key_server(directory: Path) -> Iterator[KeyServer]:
    """Its certificate is signed by itself: `certificate.pem` in the folder."""
    certificate, key = _write_certificate(directory)
    served: KeyServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked += 1
            self.send_response(served.status)
            self.send_header("Location", "/other")
            self.end_headers()
            self.wfile.write(served.document)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        served = KeyServer(f"https://127.0.0.1:{server.server_port}/keys")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served
        server.shutdown()
        thread.join()


def _write_certificate(directory: Path) -> tuple[Path, Path]:
    key = private_key("P-256")
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "certificate.pem", directory / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return paths

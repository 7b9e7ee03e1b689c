"""Asking what is there: is this port taken, and by whom; does this process say that it is ready."""

import contextlib
import os
import re
import socket
from pathlib import Path

from services.local.cluster_shape import HOST
from services.local.host_names import with_port
from services.local.processes import command_line

LISTENING = "0A"
CONTENT_LENGTH = re.compile(rb"(?im)^content-length: *(\d{1,9})\s*$")


def ask(
    port: int, path: str, *, timeout_s: float, host: str = HOST, bytes_max: int = 65_536, token: str = ""
) -> tuple[bool, str]:
    """GET `path`: (whether it answered 200, its text). After `bytes_max` it is cut. `token`: of an admin port that demands one.

    A plain socket: http.client takes longer to import than to use.
    """
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            shown = f"Authorization: Bearer {token}\r\n" if token else ""
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {with_port(host, port)}\r\n{shown}\r\n".encode())
            answer = b""
            while len(answer) < bytes_max and not _is_whole(answer) and (part := connection.recv(65_536)):
                answer += part
    except OSError as reason:
        return False, f"no answer ({reason.strerror or reason})"
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    return status == [b"200"], body.decode(errors="replace").strip() or repr(head[:80])


def _is_whole(answer: bytes) -> bool:
    """Whether all is there that the head announces: some servers leave the connection open, however they are asked."""
    head, end, body = answer.partition(b"\r\n\r\n")
    length = CONTENT_LENGTH.search(head)
    return bool(end) and length is not None and len(body) >= int(length[1])


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def holder_of(port: int) -> str:
    """Who listens there, as far as we may see."""
    inodes = _listening_inodes(port)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            for descriptor in (entry / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(descriptor) in inodes:
                        return f"process {entry.name} ({' '.join(command_line(int(entry.name)))[:120]})"
    return "another process"


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text(encoding="utf-8").splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(f"socket:[{fields[9]}]")
    return found

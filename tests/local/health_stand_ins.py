"""Stand-ins for services that tell the health that a file holds, in a checkout of their own: ready within milliseconds."""

import json
from pathlib import Path

ROLES = ("controller", "storage", "group_coordinator", "transaction_coordinator", "quota_manager", "gateway", "node")
STAND_IN = """
import http.server, os, pathlib
verdict = pathlib.Path("verdict.json")
says = "the active controller" if os.environ["PENSTOCK_DATA_DIR"].endswith("controller-1") else ""
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        own = pathlib.Path(os.environ["PENSTOCK_DATA_DIR"]).name + ".says"
        says_so = self.path == "/readyz" and os.path.exists(own)
        self.send_response(503 if says_so else 200)
        self.end_headers()
        said = pathlib.Path(own).read_bytes() if says_so else says.encode()
        self.wfile.write(verdict.read_bytes() if self.path == "/health" else said)
    def log_message(self, *arguments): pass
http.server.HTTPServer(("127.0.0.1", int(os.environ["PENSTOCK_ADMIN_PORT"])), Answers).serve_forever()
"""


def make_checkout(root: Path, sentence: str = "healthy") -> Path:
    """The code of the stand-ins below `root`."""
    for role in ROLES:
        package = root / "services" / role
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(STAND_IN, encoding="utf-8")
    (root / "services" / "__init__.py").touch()
    tell(root, sentence)
    return root


def tell(root: Path, sentence: str, *, only_full: bool = False, under_replicated: int = 0) -> None:
    """What the stand-ins say of the cluster from now on."""
    said = {
        "verdict": sentence.partition(":")[0],
        "sentence": sentence,
        "counts": {"offline": 0, "under_min_isr": 0, "under_replicated": under_replicated},
        "moving": 0,
        "leaders": {"1": 1},
        "only_full": only_full,
    }
    (root / "verdict.json").write_text(json.dumps(said), encoding="utf-8")


def say_not_ready(root: Path, name: str, reason: str) -> None:
    """One of the stand-ins says so from now on."""
    (root / f"{name}.says").write_text(reason, encoding="utf-8")

"""Stand-ins for services that tell the health that a file holds, in a checkout of their own: ready within milliseconds."""

from pathlib import Path

ROLES = ("controller", "storage", "group_coordinator", "transaction_coordinator", "gateway")
STAND_IN = """
import http.server, os, pathlib
verdict = pathlib.Path("verdict.json")
says = "the active controller" if os.environ["PENSTOCK_DATA_DIR"].endswith("controller-1") else ""
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(verdict.read_bytes() if self.path == "/health" else says.encode())
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


def tell(root: Path, sentence: str) -> None:
    """What the stand-ins say of the cluster from now on."""
    counts = '{"offline": 0, "under_min_isr": 0, "under_replicated": 0}'
    verdict = sentence.partition(":")[0]
    text = f'{{"verdict": "{verdict}", "sentence": "{sentence}", "counts": {counts}, "moving": 0, "leaders": {{"1": 1}}}}'
    (root / "verdict.json").write_text(text, encoding="utf-8")

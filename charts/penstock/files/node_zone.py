"""An init container: copies the settings, and adds the label of this pod's node as its rack.

Arguments: the file of the settings, the file to write. Environment: NODE_NAME, NODE_LABEL, and what Kubernetes gives every pod.
"""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path(os.environ.get("SERVICE_ACCOUNT_DIR", "/var/run/secrets/kubernetes.io/serviceaccount"))
TIMEOUT_S = 10.0


def main(settings: str, target: str) -> None:
    node, label = os.environ["NODE_NAME"], os.environ["NODE_LABEL"]
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    address = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    request = urllib.request.Request(f"{address}/api/v1/nodes/{node}")
    request.add_header("Authorization", f"Bearer {(ACCOUNT / 'token').read_text(encoding='utf-8').strip()}")
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=trust) as answer:
            labels = json.load(answer)["metadata"].get("labels", {})
    except (OSError, ValueError) as error:
        sys.exit(f"node {node} cannot be read at {address}: {error}")
    rack = labels.get(label)
    if not rack:
        sys.exit(f"node {node} has no label {label}: label it, or install with rack.source=none")
    Path(target).write_text(f"{Path(settings).read_text(encoding='utf-8')}\nrack = {json.dumps(rack)}\n", encoding="utf-8")
    print(f"rack {rack}, from {label} of node {node}")


main(*sys.argv[1:])

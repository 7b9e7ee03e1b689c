"""`python -m libs.local_security FOLDER`: makes what lacks of a protected cluster's files, and tells them in JSON."""

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from libs.local_security.folder import Unusable, secure


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m libs.local_security", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--host", action="append", default=[], help="by which clients reach a gateway; repeatable")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--new", action="store_true", help="the cluster has not begun")
    given = parser.parse_args(arguments)
    try:
        made = secure(given.folder, given.host, given.bootstrap_servers, datetime.now(UTC), is_new=given.new)
    except Unusable as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename or given.folder}: {error.strerror or error}", file=sys.stderr)
        return 1
    print(json.dumps({"renewed": made.renewed, "knows_password": made.knows_password}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

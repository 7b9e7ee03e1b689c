"""`python -m libs.local_security FOLDER`: makes what lacks of a protected cluster's files, and tells them in JSON."""

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from libs.local_security.etcd_files import secure_etcd
from libs.local_security.folder import Unusable, secure


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m libs.local_security", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--host", action="append", default=[], help="by which clients reach a gateway; repeatable")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--etcd-user", action="append", default=[], help="of the cluster's etcd; repeatable")
    parser.add_argument("--etcd-runs", action="store_true", help="etcd runs, with the authority that the folder has")
    parser.add_argument("--new", action="store_true", help="the cluster has not begun")
    given = parser.parse_args(arguments)
    now = datetime.now(UTC)
    try:
        made = secure(given.folder, given.host, given.bootstrap_servers, now, is_new=given.new)
        knows_authority = secure_etcd(given.folder, given.etcd_user, now, runs=given.etcd_runs)
    except Unusable as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename or given.folder}: {error.strerror or error}", file=sys.stderr)
        return 1
    told = {
        "renewed": made.renewed,
        "is_another_authority": made.is_another_authority,
        "knows_password": made.knows_password,
        "knows_etcd_authority": knows_authority,
    }
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

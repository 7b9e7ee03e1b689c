"""kafkajs commits positions with results (TxnOffsetCommit 0 to 1: it names no member)."""

import os
import subprocess
from pathlib import Path

from tests.compat.clients.admin import Admin
from tests.compat.clients.groups.builds import node_modules
from tests.compat.clients.transactions.transactional import fill, read

PROGRAM = Path(__file__).parent / "programs" / "copy.cjs"
RECORDS = 300
IN_A_BATCH = 50
WITHIN_S = 60.0


def test_kafkajs_copies_each_record_once(bootstrap: str, admin: Admin, topic: str) -> None:
    copy = f"{topic}-copy"
    for name in (topic, copy):
        admin.create(name, partitions=2)
    fill(bootstrap, topic, RECORDS, IN_A_BATCH)
    command = ["node", str(PROGRAM), bootstrap, topic, copy, topic, str(RECORDS)]
    environment = {**os.environ, "NODE_PATH": str(node_modules()), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=WITHIN_S, check=False)
    assert ended.returncode == 0, ended.stderr
    assert sorted(int(value) for value in read(bootstrap, copy, RECORDS, 2)) == list(range(RECORDS))

"""The launcher of the version whose source is on PYTHONPATH: starts a cluster, or restarts one process of it.

RUN PYTHON ETCD SHAPE up | restart NAME      SHAPE: JSON, the fields of services.local.cluster_shape.Shape
"""

import json
import os
import signal
import sys
from pathlib import Path

from services.local.cluster import Cluster
from services.local.cluster_shape import Shape
from services.local.run_directory import RunDirectory

run, python, etcd, shape, command, *names = sys.argv[1:]
source = Path(os.environ.pop("PYTHONPATH"))
cluster = Cluster(Shape(**json.loads(shape)), RunDirectory(run), root=source, python=Path(python), etcd=Path(etcd))
if command == "up":
    cluster.up()
for name in names:
    cluster.kill(name, signal.SIGTERM)
    cluster.start(name)
    cluster.wait_ready([name])

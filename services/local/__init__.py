"""Runs a cluster on this machine: etcd and the services as plain processes on loopback.

Standard library only: set-up runs before anything is installed.
"""

import sys

# Before any module is read that an older Python cannot parse.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(f"penstock: this is Python {sys.version.split()[0]}; Penstock needs 3.11 or later (make PYTHON=/path/to/python3.11)")
if sys.platform != "linux":
    sys.exit(f"penstock: this is {sys.platform}; Penstock needs Linux: a virtual machine or a container will do")

"""Penstock, a distributed, replicated log that speaks the Kafka protocol.

Users import `penstock.testing`, or run the command `penstock`. An installed wheel holds `libs` and `services` in `packages/`,
where no import of others finds them (docs/adr/0029). A process of Penstock finds them by `put_packages_on_path`.
"""

import os
import sys

PACKAGES = os.path.join(os.path.dirname(__file__), "packages")


def put_packages_on_path() -> None:
    """Lets this process and its children import `libs` and `services`, before any others of these names. In a source tree they
    are found already."""
    if not os.path.isdir(PACKAGES):
        return
    sys.path.insert(0, PACKAGES)
    further = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{PACKAGES}{os.pathsep}{further}" if further else PACKAGES
    os.environ["PYTHONSAFEPATH"] = "1"  # a `libs` in the working directory is somebody else's

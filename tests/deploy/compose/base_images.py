"""Stand-ins for the images that others publish, where no registry can be reached, under the tags that our files name.

Python's is Debian 12 with its Python 3.11, as python:3.11-slim-bookworm is. etcd's holds the etcd of `make setup`, whose version
may be another, and Debian's etcdctl.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from services.local.etcd_setup import etcd_binary
from tests.deploy.compose.docker_daemon import TOOLS, DockerDaemon
from tests.support.requirements import ROOT

PYTHON_IMAGE = "python:3.11-slim-bookworm"
ROOT_ARCHIVE = TOOLS / "python-3.11-slim-bookworm.tar"
CA_BUNDLE = "etc/ssl/certs/ca-certificates.crt"
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
"""As Debian's own slim images do."""
OF_ITS_OWN = ("unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child")
"""mmdebstrap mounts what the machine has, such as /sys, into the root that it makes. Whatever ends it ends these mounts, too, and
all its processes, before anything deletes that root."""
MADE_WITHIN_S = 1800
"""A minute on a quiet machine; 500 s were too few beside four busy tests for one core."""


def import_python_image(daemon: DockerDaemon) -> None:
    """Makes the root file system once, in about a minute."""
    if daemon.has_image(PYTHON_IMAGE):
        return
    if not ROOT_ARCHIVE.exists():
        _make_root_archive()
    daemon.run("import", "--change", 'CMD ["python3"]', str(ROOT_ARCHIVE), PYTHON_IMAGE)


def _make_root_archive() -> None:
    TOOLS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        left_out = [f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT]
        packages = "--include=ca-certificates,python3,python3-pip,python3-venv"
        made_by = [*OF_ITS_OWN, "mmdebstrap", "--variant=minbase", packages, *left_out, "bookworm", root]
        subprocess.run(made_by, check=True, timeout=MADE_WITHIN_S)
        # A machine may trust more than Debian's list, such as a proxy of its network. So must an image that reaches registries.
        shutil.copyfile(Path("/") / CA_BUNDLE, root / CA_BUNDLE)
        (root / "usr/lib/python3.11/EXTERNALLY-MANAGED").unlink()
        for name, target in (("python", "python3.11"), ("python3", "python3.11"), ("pip", "pip3")):
            (root / "usr/local/bin" / name).symlink_to(f"/usr/bin/{target}")
        for cache in root.rglob("__pycache__"):  # the published image has none, which is why ours compiles what it needs
            shutil.rmtree(cache)
        made = ROOT_ARCHIVE.with_suffix(".partial")
        subprocess.run(["tar", "--create", f"--file={made}", f"--directory={root}", "."], check=True)
        made.rename(ROOT_ARCHIVE)


def build_etcd_image(daemon: DockerDaemon, tag: str) -> None:
    if daemon.has_image(tag):
        return
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch)
        shutil.copy2(etcd_binary(ROOT), context / "etcd")
        shutil.copy2(_etcdctl(), context / "etcdctl")
        (context / "Dockerfile").write_text(
            f'FROM {PYTHON_IMAGE}\nCOPY etcd etcdctl /usr/local/bin/\nCMD ["etcd"]\n', encoding="utf-8"
        )
        daemon.run("build", "--quiet", "--tag", tag, str(context))


def _etcdctl() -> Path:
    kept = TOOLS / "etcdctl"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as scratch:
            subprocess.run(["apt-get", "download", "etcd-client"], cwd=scratch, check=True, capture_output=True, timeout=120)
            package = next(Path(scratch).glob("*.deb"))
            subprocess.run(["dpkg-deb", "-x", package, scratch], check=True)
            shutil.copy2(Path(scratch) / "usr/bin/etcdctl", kept)
    return kept

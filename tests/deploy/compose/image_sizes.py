"""Bounds of the sizes of images at a registry: each layer is compressed, and quickly. Registries have it a tenth smaller."""

import json
import tarfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.deploy.compose.docker_daemon import DockerDaemon

CHUNK_BYTES = 1 << 20


class CompressedSize(NamedTuple):
    """In bytes. `base` is the part of the image that it begins from."""

    image: int
    base: int


def compressed_sizes(daemon: DockerDaemon, images: Sequence[str], scratch: Path) -> dict[str, CompressedSize]:
    """By image. The first layer of each is the base image's, which an import makes of one layer."""
    archive = scratch / "images.tar"
    daemon.run("save", "--output", str(archive), *images)
    with tarfile.open(archive) as saved:
        manifest = saved.extractfile("manifest.json")
        assert manifest is not None
        layers = {image["RepoTags"][0]: image["Layers"] for image in json.load(manifest)}
        names = {name for image in layers.values() for name in image}
        resolved = {name: saved.getmember(name) for name in names}
    with ThreadPoolExecutor(2) as pool:
        sizes = dict(zip(resolved, pool.map(lambda member: _compressed(archive, member), resolved.values()), strict=True))
    archive.unlink()
    return {tag: CompressedSize(sum(sizes[name] for name in image), sizes[image[0]]) for tag, image in layers.items()}


def _compressed(archive: Path, member: tarfile.TarInfo) -> int:
    """A layer that several images have may be a link to the one that was saved first."""
    compressor = zlib.compressobj(level=1, wbits=31)
    size = 0
    with tarfile.open(archive) as saved:
        layer = saved.extractfile(member)
        assert layer is not None
        while chunk := layer.read(CHUNK_BYTES):
            size += len(compressor.compress(chunk))
    return size + len(compressor.flush())

"""The step of a wheel's build that puts `libs` and `services` into `penstock/packages/`.

Both are names that other distributions and users' own projects have. Setuptools alone imports this.
"""

import shutil
from pathlib import Path

from setuptools.command.build_py import build_py

NESTED = ("libs", "services")


class BuildNested(build_py):  # type: ignore[misc]
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        packages = Path(self.build_lib) / "penstock" / "packages"
        shutil.rmtree(packages, ignore_errors=True)
        packages.mkdir(parents=True)
        for name in NESTED:
            shutil.move(Path(self.build_lib) / name, packages / name)

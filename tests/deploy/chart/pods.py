"""A pod of the chart as a process: its command, environment, volumes, user and read-only root, in a namespace of its own.

Containers' paths are rewritten to directories of this machine. The process sees the rest of the machine's files read-only.
"""

import http.client
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from tests.deploy.chart.rendering import Object, containers
from tests.support.requirements import ROOT

_ENTER = """
set -e
mount --bind "$HOSTS" /etc/hosts
for volume in $VOLUMES; do mount --bind "$volume" "$volume"; done
mount --bind "$SOURCE" "$APP"
mount -o remount,bind,ro /
cd "$APP"
exec setpriv --reuid="$POD_UID" --regid="$POD_UID" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all -- "$@"
"""
_VARIABLE = re.compile(r"\$\((\w+)\)")
_LABEL = re.compile(r"metadata\.labels\['(.+)'\]")
OF_IMAGE = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "MALLOC_ARENA_MAX": "2"}
PROBE_S = 3.0


class Pod:
    """One container's process. `start` begins it anew, with empty emptyDirs; claims, `config_maps` and `secrets` are given."""

    def __init__(
        self,
        name: str,
        spec: Object,
        labels: Mapping[str, str],
        *,
        namespace: str,
        address: str,
        directory: Path,
        hosts: Path,
        config_maps: Mapping[str, Object],
        secrets: Mapping[str, Mapping[str, bytes]],
    ) -> None:
        self.name, self.spec, self.labels = name, spec, dict(labels)
        self.namespace, self.address, self.directory = namespace, address, directory
        self.ready = self.terminating = False
        self._hosts, self._config_maps, self._secrets = hosts, config_maps, secrets
        [self.container] = containers(spec)
        self._uid: int = spec["securityContext"]["runAsUser"]
        self._starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._volumes: dict[str, Path] = {}
        self.log_file = directory / "log"
        directory.mkdir(parents=True)
        (directory / "app").mkdir()

    def start(self) -> None:
        self._starts += 1
        self._volumes = {each["name"]: self._volume(each["name"]) for each in self.container.get("volumeMounts", [])}
        self.terminating = False
        with open(self.log_file, "ab") as log:
            self._process = self._run(self.container["command"], log)

    def wait(self, within_s: float) -> int:
        """The exit code of a process that ends by itself."""
        assert self._process is not None
        return self._process.wait(within_s)

    def stop(self, within_s: float) -> None:
        """As the kubelet: the hook, SIGTERM, and an assertion where the kubelet would kill."""
        assert self._process is not None
        self.terminating, self.ready = True, False
        hook = self.container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
        if hook:
            with open(self.log_file, "ab") as log:
                assert self._run(hook, log).wait(within_s) == 0, f"{self.name}: the preStop hook failed:\n{self.log()[-2000:]}"
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(min(within_s, self.spec["terminationGracePeriodSeconds"]))
        assert code in (0, -signal.SIGTERM), f"{self.name} ended with {code}:\n{self.log()[-4000:]}"

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)

    def answers(self, probe: str) -> bool:
        """A probe of the container. Call it in the node's namespace."""
        get = self.container[probe]["httpGet"]
        port = next(port["containerPort"] for port in self.container["ports"] if port["name"] == get["port"])
        connection = http.client.HTTPConnection(self.address, port, timeout=PROBE_S)
        try:
            connection.request("GET", get["path"])
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def assert_running(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, f"{self.name} ended with {self._process.returncode}:\n{self.log()[-4000:]}"

    def log(self) -> str:
        return self.log_file.read_text(errors="replace", encoding="utf-8") if self.log_file.exists() else ""

    def _run(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        app = self.directory / "app"
        given = {
            "HOSTS": str(self._hosts),
            "VOLUMES": " ".join(map(str, self._volumes.values())),
            "SOURCE": str(ROOT),
            "APP": str(app),
            "POD_UID": str(self._uid),
            "PATH": os.environ["PATH"],
        }
        path = f"{app}/.venv/bin:{app}/.tools/etcd:/usr/bin:/bin"
        variables = [f"{name}={value}" for name, value in {**OF_IMAGE, **self._environment(), "PATH": path}.items()]
        enter = [
            "nsenter",
            f"--net=/run/netns/{self.namespace}",
            "unshare",
            "--mount",
            "--propagation=private",
            "sh",
            "-c",
            _ENTER,
        ]
        arguments = [self._expanded(argument) for argument in command]
        return subprocess.Popen(
            [*enter, "sh", "env", "-i", *variables, *arguments], env=given, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )

    def _environment(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in self.container.get("env", []):
            value = each["value"] if "value" in each else self._field(each["valueFrom"]["fieldRef"]["fieldPath"])
            found[each["name"]] = self._here(_VARIABLE.sub(lambda match: found.get(match[1], match[0]), value))
        return found

    def _field(self, path: str) -> str:
        """The downward API. A label that is not there is an empty text."""
        if label := _LABEL.fullmatch(path):
            return self.labels.get(label[1], "")
        return {"metadata.name": self.name, "status.podIP": self.address, "spec.nodeName": "node"}[path]

    def _expanded(self, argument: str) -> str:
        known = self._environment()
        return self._here(_VARIABLE.sub(lambda match: known.get(match[1], match[0]), argument))

    def _here(self, text: str) -> str:
        mounts = {each["mountPath"]: self._volumes[each["name"]] for each in self.container.get("volumeMounts", [])}
        if not mounts:
            return text
        paths = "|".join(re.escape(path) for path in sorted(mounts, key=len, reverse=True))
        return re.sub(rf"(?<![\w/])({paths})(?=/|$)", lambda match: str(mounts[match[1]]), text)

    def _volume(self, name: str) -> Path:
        kind = next((each for each in self.spec.get("volumes", []) if each["name"] == name), None)
        path = self.directory / (name if kind is None else f"{name}-{self._starts}")
        path.mkdir(exist_ok=True)
        if kind is not None and "configMap" in kind:
            for file, text in self._config_maps[kind["configMap"]["name"]]["data"].items():
                (path / file).write_text(text, encoding="utf-8")
        elif kind is not None and "secret" in kind:
            files = self._secrets[kind["secret"]["secretName"]]
            items = {item["key"]: item["path"] for item in kind["secret"].get("items", [])} or {name: name for name in files}
            _write_secret(path, {items[name]: files[name] for name in items.keys() & files.keys()}, self._uid)
        else:
            shutil.chown(path, self._uid, self._uid)
        return path


def _write_secret(folder: Path, files: Mapping[str, bytes], group: int) -> None:
    """Root's, readable by the pod's group. All files lead through one link, so that they change together."""
    data = folder / f"..{len(list(folder.iterdir()))}"
    data.mkdir()
    for name, content in files.items():
        (data / name).write_bytes(content)
        shutil.chown(data / name, 0, group)
        (data / name).chmod(0o440)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data", name))
    (folder / "..new").symlink_to(data.name)
    (folder / "..new").rename(folder / "..data")

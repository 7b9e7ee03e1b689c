"""Topics from this machine's own package list: `python -m services.pipeline.examples.packages BOOTSTRAP FOLDER [SECURITY]`.

SECURITY is the folder that `make up SECURITY=on` made.
`packages` is a changelog: a record for each package of dpkg, or of Python where there is no dpkg, by name. `package-visits` has
lines as of a web server that offers them; each run adds some, of which a few are broken. The job file is written to FOLDER.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from random import Random

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

VISITS = 20_000
BROKEN_EVERY = 4_000
AGENTS = ("apt/2.6.1", "pip/24.0", "curl/7.88.1", "Mozilla/5.0")
QUIET: Mapping[str, object] = {"log_level": 0}
"""What fails is raised; librdkafka's own log has several lines for it."""
TEMPLATE = Path(__file__).with_suffix(".toml")
_FIELDS = "${Package}\t${Version}\t${Section}\t${Installed-Size}\n"


def installed_packages() -> Iterator[dict[str, object]]:
    if shutil.which("dpkg-query"):
        lines = subprocess.run(["dpkg-query", "-W", "-f", _FIELDS], capture_output=True, encoding="utf-8", check=True).stdout
        for line in lines.splitlines():
            name, version, section, size = line.split("\t")
            yield {"name": name, "version": version, "section": section, "installed_kilobytes": int(size or 0)}
        return
    for package in metadata.distributions():
        yield {"name": package.metadata["Name"], "version": package.version, "section": "python", "installed_kilobytes": None}


def visits(packages: list[dict[str, object]], count: int) -> Iterator[tuple[str, str]]:
    """Key, the path, and line of each visit."""
    drawn = Random()
    for number in range(count):
        package = drawn.choice(packages)
        path = f"/pool/{package['section']}/{package['name']}_{package['version']}.deb"
        found = {"path": path, "status": drawn.choice((200, 200, 200, 304, 404)), "bytes": package["installed_kilobytes"]}
        line = json.dumps({**found, "agent": drawn.choice(AGENTS)})
        yield path, line[:-1] if number % BROKEN_EVERY == BROKEN_EVERY - 1 else line


def login_in(security: Path) -> dict[str, object]:
    """Settings of librdkafka."""
    lines = (security / "kcat.conf").read_text(encoding="utf-8").splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines) if name != "bootstrap.servers"}


def job_file(bootstrap: str, folder: Path, security: Path | None) -> str:
    text = TEMPLATE.read_text(encoding="utf-8").replace("127.0.0.1:9092", bootstrap)
    text = text.replace(".run/pipeline/lake", str(folder / "lake"))
    if security is None:
        return text
    login = login_in(security)
    table = {
        "protocol": login["security.protocol"],
        "mechanism": login["sasl.mechanism"],
        "user": login["sasl.username"],
        "password_file": str((security / "admin-password").absolute()),
        "ca_file": login["ssl.ca.location"],
    }
    return f"{text}\n[cluster.security]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items())


def make_topics(bootstrap: str, login: Mapping[str, object]) -> None:
    topics = [NewTopic("packages", 2, 1, config={"cleanup.policy": "compact"}), NewTopic("package-visits", 4, 1)]
    admin = AdminClient({**QUIET, **login, "bootstrap.servers": bootstrap})  # held, since its end would end what it does
    for made in admin.create_topics(topics).values():
        try:
            made.result(60)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def fill(bootstrap: str, login: Mapping[str, object]) -> str:
    """Returns what was written, in words."""
    packages = list(installed_packages())
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "partitioner": "murmur2"}
    producer = Producer({**QUIET, **login, **settings})
    records = [("packages", str(package["name"]), json.dumps(package)) for package in packages]
    records += [("package-visits", path, line) for path, line in visits(packages, VISITS)]
    for topic, key, value in records:
        producer.produce(topic, value, key)
        producer.poll(0)
    if producer.flush(60):
        raise SystemExit(f"{bootstrap} did not acknowledge all records within 60 s")
    return f"wrote {len(packages)} packages and {VISITS} visits, {VISITS // BROKEN_EVERY} of them broken"


def main(bootstrap: str, folder: Path, security: Path | None = None) -> None:
    login = login_in(security) if security is not None else {}
    make_topics(bootstrap, login)
    print(fill(bootstrap, login), flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TEMPLATE.name).write_text(job_file(bootstrap, folder, security), encoding="utf-8")
    print(f"the job file is {folder / TEMPLATE.name}, the lake {folder / 'lake'}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))

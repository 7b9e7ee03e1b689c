"""The program `penstock dev`: it reads the command line, and runs a cluster until a signal."""

import gc
import sys
from collections.abc import Sequence

from libs.host_port import with_port
from libs.runtime.ending import run_program
from libs.telemetry import logs
from services.dev.command_line import log_settings_of, parse, settings_of
from services.dev.data_folder import open_data_folder
from services.dev.security import folder_of
from services.dev.settings import WrongSetting


def main(arguments: Sequence[str]) -> None:
    """Never returns."""
    given = parse(arguments)
    try:
        settings, logging = settings_of(given), log_settings_of(given)
        folder = open_data_folder(settings.data)
    except WrongSetting as error:
        sys.exit(f"penstock dev: {error}")
    # The services are dear to import, and a mistake is said without them.
    from libs.runtime.lifecycle import run
    from services.dev.serving import serve

    gc.freeze()
    gc.enable()
    logs.configure("dev", "dev", logging)

    security = folder_of(folder.path)

    def announce(host: str, port: int) -> None:
        print(f"bootstrap.servers={with_port(host, port)}", flush=True)
        if settings.security:
            print("clients need TLS, and the user admin or one that admin makes (docs/security.md)")
            print(f"  trust: {security}/ca.pem")
            print(f"  Java and Kafka's tools: {security}/client.properties, as in --command-config {security}/client.properties")
            print(f"  librdkafka: {security}/kcat.conf, as in kcat -F {security}/kcat.conf -L")
            if settings.admin_port is not None:
                print(
                    f'  admin port: {security}/admin-token, as in curl -H "Authorization: Bearer $(cat {security}/admin-token)"'
                )
            sys.stdout.flush()

    try:
        run(lambda lifecycle: serve(settings, folder, logging, lifecycle, announce))
    finally:
        folder.close()


if __name__ == "__main__":
    run_program(lambda: main(sys.argv[1:]))

"""The process that tests fork their clusters from: it has imported everything, so that a cluster is ready in a tenth of a second.

A request is a JSON object, with the descriptor of a socket: the cluster's lifeline. The cluster answers there once, with its
address or with what is wrong. It ends when the other end of its lifeline is shut down, or is gone with its process.
"""

import asyncio
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from libs.host_port import with_port
from libs.runtime.ending import run_program
from libs.runtime.lifecycle import CannotRun, Lifecycle, run
from libs.telemetry import logs
from libs.telemetry.logs import LEVELS, LogSettings
from services.dev.data_folder import DataFolder, open_data_folder
from services.dev.serving import serve
from services.dev.settings import Settings, WrongSetting, broker_configs_of

REQUEST_BYTES_MAX = 1 << 20


def main(control: socket.socket) -> None:
    """Serves requests until the other end of `control` is closed."""
    gc.collect()
    gc.freeze()  # a fork shares what no collection touches
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for clusters: their lifelines tell
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, REQUEST_BYTES_MAX, 1)
        if not message:
            return
        with socket.socket(fileno=descriptors[0]) as lifeline:
            if os.fork() == 0:
                control.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                run_program(partial(_run_cluster, json.loads(message), lifeline))


def _run_cluster(request: Mapping[str, Any], lifeline: socket.socket) -> None:
    """Never returns."""
    gc.enable()
    try:
        logging = _log_settings(request["log_level"])
        configs = broker_configs_of(f"{name}={value}" for name, value in request["broker_configs"].items())
        settings = Settings(port=request["port"], data=request["data"], broker_configs=configs)
        folder = open_data_folder(settings.data)
    except WrongSetting as error:
        _answer(lifeline, error=str(error))
        sys.exit(1)
    logs.configure("dev", f"dev-{os.getpid()}", logging)
    try:
        run(lambda lifecycle: _serve(settings, folder, logging, lifecycle, lifeline))
    finally:
        folder.close()


async def _serve(
    settings: Settings, folder: DataFolder, logging: LogSettings, lifecycle: Lifecycle, lifeline: socket.socket
) -> None:
    loop = asyncio.get_running_loop()

    def lifeline_ended() -> None:
        loop.remove_reader(lifeline)
        lifecycle.stop()

    loop.add_reader(lifeline, lifeline_ended)
    try:
        await serve(
            settings,
            folder,
            logging,
            lifecycle,
            lambda host, port: _answer(
                lifeline, bootstrap_servers=with_port(host, port), port=port, pid=os.getpid(), temporary=folder.sockets
            ),
        )
    except CannotRun as error:
        facts = "".join(f", {name}: {value}" for name, value in error.facts.items())
        _answer(lifeline, error=f"{error}{facts}")
        raise
    except OSError as error:
        _answer(lifeline, error=str(error))
        raise


def _log_settings(level: object) -> LogSettings:
    """Raises WrongSetting."""
    if not isinstance(level, str) or level not in LEVELS:
        raise WrongSetting(f"log_level is {level!r}; expected {', '.join(LEVELS[:-1])} or {LEVELS[-1]}")
    return LogSettings(level)


def _answer(lifeline: socket.socket, **fields: object) -> None:
    lifeline.sendall(json.dumps(fields).encode() + b"\n")

"""The start of Spark's JVM: where its output goes, which signals it leaves to the driver, and how its classes are found."""

import signal
from collections.abc import Mapping
from subprocess import Popen
from typing import Any, TextIO

from py4j.java_gateway import JavaPackage
from pyspark import SparkConf, java_gateway
from pyspark.errors import PySparkRuntimeError

from services.pipeline.errors import PipelineError

LEFT_TO_THE_DRIVER = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that may come to the driver's whole process group or control group: from `timeout`, a terminal or systemd.

A JVM keeps ignoring what its parent ignored. It ends when its standard input does, so it outlives no driver.
"""


class KnownNames:
    """A view of the JVM, or a package in it, that asks the JVM only once for each package and class.

    Py4J asks for each part of a name each time. For most parts the JVM then looks into all jars for a class of that name, in
    each of the packages that PySpark has imported. That was a quarter of a driver's CPU.
    """

    def __init__(self, view: Any) -> None:
        self._view = view

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._view, name)
        if isinstance(found, JavaPackage):
            if name[0].isupper():  # no package: a class whose jar may still come
                return found
            found = KnownNames(found)
        setattr(self, name, found)
        return found


def start_jvm(settings: Mapping[str, str], output: TextIO | None) -> Any:
    """PySpark's gateway to a new JVM, or to that of `spark-submit`. `output` gets what a new one prints; None: where this process
    prints. Raises PipelineError if the JVM does not start."""
    former = java_gateway.Popen
    java_gateway.Popen = _ignoring_signals  # PySpark has no way to give its own one up
    streams = {} if output is None else {"stdout": output, "stderr": output}
    try:
        gateway = java_gateway.launch_gateway(SparkConf(loadDefaults=False).setAll(list(settings.items())), streams)
    except PySparkRuntimeError as error:
        raise PipelineError("Spark's JVM has ended before it could be used: is the java on PATH 17 or later?") from error
    finally:
        java_gateway.Popen = former
    gateway.jvm = KnownNames(gateway.jvm)
    return gateway


def settings_from_outside(gateway: Any) -> SparkConf:
    """What `spark-submit` and `spark-defaults.conf` say, and what the JVM was started with."""
    return SparkConf(_jconf=gateway.jvm.SparkConf(True))


def _ignoring_signals(command: list[str], **options: Any) -> "Popen[bytes]":
    return Popen(command, **{**options, "preexec_fn": _ignore_signals})


def _ignore_signals() -> None:
    for number in LEFT_TO_THE_DRIVER:
        signal.signal(number, signal.SIG_IGN)

"""An executor in a pod of its own: `python -m services.pipeline.spark.executor`, in the image of the pipeline.

Spark's driver starts the pod with the argument `executor`, and tells the rest by variables, as Spark's own image expects them
(its `entrypoint.sh`).
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

MAIN_CLASS = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
JAVA_OPTION = "SPARK_JAVA_OPT_"
OPTIONS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def command(environment: Mapping[str, str], jars: Path) -> list[str]:
    """Raises KeyError with the name of a variable that Spark did not set."""
    numbered = {int(name.removeprefix(JAVA_OPTION)): value for name, value in environment.items() if name.startswith(JAVA_OPTION)}
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    classpath = [str(jars / "*"), *filter(None, [environment.get("SPARK_EXTRA_CLASSPATH")])]
    options = [part for option, name in OPTIONS.items() for part in (option, environment[name])]
    java_options = [numbered[number] for number in sorted(numbered)]
    return ["java", *java_options, f"-Xms{memory}", f"-Xmx{memory}", "-cp", ":".join(classpath), MAIN_CLASS, *options]


def main() -> None:
    import pyspark

    try:
        argv = command(os.environ, Path(pyspark.__file__).parent / "jars")
    except KeyError as error:
        sys.exit(f"executor: {error.args[0]} is not set; Spark's driver starts executors, nobody else")
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main()

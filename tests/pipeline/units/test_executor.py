"""The command of an executor's pod, from the variables that Spark's driver sets."""

from pathlib import Path

import pytest

from services.pipeline.spark.executor import MAIN_CLASS, OPTIONS, command

VARIABLES = {name: f"value of {name}" for name in OPTIONS.values()} | {"SPARK_EXECUTOR_MEMORY": "2g"}


def test_java_options_keep_their_order_and_come_before_the_class() -> None:
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dnumber={number}" for number in range(12)}
    made = command(VARIABLES | options, Path("/jars"))
    assert made[:13] == ["java", *(f"-Dnumber={number}" for number in range(12))]
    assert made[13:17] == ["-Xms2g", "-Xmx2g", "-cp", "/jars/*"]
    assert made[17:20] == [MAIN_CLASS, "--driver-url", "value of SPARK_DRIVER_URL"]


@pytest.mark.parametrize("name", [*OPTIONS.values(), "SPARK_EXECUTOR_MEMORY"])
def test_a_variable_that_is_not_set_is_named(name: str) -> None:
    with pytest.raises(KeyError, match=name):
        command({key: value for key, value in VARIABLES.items() if key != name}, Path("/jars"))

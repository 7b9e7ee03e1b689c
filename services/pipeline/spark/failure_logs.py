"""Spark's own log lines of failures that end a job. The driver gets the same errors, and shows them once.

A job that refuses to go on raises a PipelineError in a micro-batch or a task. Spark logs it with the stacks of all of its layers,
which hide the one sentence. So these lines are left out. `services.pipeline.jobs.running` prints an error in full that is none of
ours.
"""

import logging

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from services.pipeline.spark.jvm import jvm
from services.pipeline.spark.refusals import refusal_in

OF_QUERIES = {"org.apache.spark.sql.execution.streaming.MicroBatchExecution": r"Query .* terminated with error"}
OF_TASKS = {
    "org.apache.spark.executor.Executor": r"Exception in task .*",
    "org.apache.spark.scheduler.TaskSetManager": r"Task .* in stage .* failed .* times; aborting job",
}
"""The logger of each line, and a regular expression for the whole line."""
CALLBACKS = "py4j.clientserver"
"""Python's logger of functions that Spark has called, those of `foreachBatch` among them."""

QUERY_CONTEXTS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's loggers of each error that has a place in a query, with all of its stacks. The error itself names that place."""


class _NoRefusals(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return error is None or refusal_in(error) is None


def leave_out_failures(spark: SparkSession, master: str) -> None:
    """Lines of tasks are left out only where a task's first failure ends the job: one that is repeated has no other trace."""
    if not any(isinstance(each, _NoRefusals) for each in logging.getLogger(CALLBACKS).filters):
        logging.getLogger(CALLBACKS).addFilter(_NoRefusals())
    for name in QUERY_CONTEXTS:
        PySparkLogger.getLogger(name).disabled = True
    is_final = master.startswith("local") and not master.startswith("local-cluster") and "," not in master
    log4j = jvm(spark).org.apache.logging.log4j
    context = log4j.LogManager.getContext(False)
    configuration = context.getConfiguration()
    result = log4j.core.Filter.Result
    for name, line in {**OF_QUERIES, **(OF_TASKS if is_final else {})}.items():
        if not configuration.getLoggers().containsKey(name):
            logger = log4j.core.config.LoggerConfig(name, None, True)
            logger.addFilter(log4j.core.filter.RegexFilter.createFilter(line, None, False, result.DENY, result.NEUTRAL))
            configuration.addLogger(name, logger)
    context.updateLoggers()

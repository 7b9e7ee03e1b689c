"""Broker loggers, which DescribeConfigs and IncrementalAlterConfigs treat as resources with configs (KIP-412).

A broker's loggers are those of the process that serves its address: this gateway. It stands for several broker ids, so a level
that is set for one of them holds for all. As in Kafka, levels are not stored. They last until the process ends.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from libs.cluster.configs.describe import DescribedConfig
from libs.cluster.image import ClusterImage
from libs.rpc.contracts.controller import ConfigChange, ConfigResource, ConfigResult
from libs.telemetry import log_levels
from libs.wire.errors import ErrorCode
from services.gateway.core.config_resources import Refused, check_broker
from services.gateway.exchange.request_context import RequestContext

BROKER_LOGGER: Final = 8
"""Kafka's resource type of a broker's loggers; the name is the broker id."""
_SOURCE: Final = 6
"""DYNAMIC_BROKER_LOGGER_CONFIG."""
_NO_TYPE: Final = 0
_SET, _DELETE = 0, 1
_OPERATIONS: Final = {_SET: "SET", _DELETE: "DELETE", 2: "APPEND", 3: "SUBTRACT"}


def describe_loggers(image: ClusterImage, addressed: int, name: str) -> list[DescribedConfig]:
    """The level of each logger. Raises Refused."""
    _check_broker(image, addressed, name)
    return [
        DescribedConfig(logger, level, _SOURCE, False, False, (), _NO_TYPE, "") for logger, level in log_levels.levels().items()
    ]


def alter_loggers(
    image: ClusterImage, context: RequestContext, resources: Sequence[ConfigResource], validate_only: bool
) -> list[ConfigResult]:
    """Changes levels. Of one resource, all changes are valid or none happens."""
    mentions = Counter(resource.name for resource in resources)
    results = []
    for resource in resources:
        try:
            if mentions[resource.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _check_broker(image, context.broker_id, resource.name)
            _check_changes(resource.changes)
        except Refused as refused:
            results.append(ConfigResult(resource.resource_type, resource.name, refused.error, refused.message))
            continue
        if not validate_only:
            for change in resource.changes:
                log_levels.set_level(change.name, change.value if change.operation == _SET else None, context.asker)
        results.append(ConfigResult(resource.resource_type, resource.name, ErrorCode.NONE))
    return results


def _check_broker(image: ClusterImage, addressed: int, name: str) -> None:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    check_broker(image, addressed, name, alternative="")


def _check_changes(changes: Sequence[ConfigChange]) -> None:
    if len({change.name for change in changes}) < len(changes):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    known = log_levels.logger_names()
    for change in changes:
        if change.operation not in (_SET, _DELETE):
            operation = _OPERATIONS.get(change.operation, "unknown")
            raise Refused(ErrorCode.INVALID_REQUEST, f"{operation} operation is not allowed for the BROKER_LOGGER resource")
        if change.operation == _SET and change.value is None:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {change.name}")
        if change.name not in known:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
        if change.operation == _DELETE and change.name == log_levels.ROOT:
            raise Refused(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
        if change.operation == _SET and change.value not in log_levels.LEVELS:
            levels = ", ".join(sorted(log_levels.LEVELS))
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                f"Valid log levels are {levels}",
            )

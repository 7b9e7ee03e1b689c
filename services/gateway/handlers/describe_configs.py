"""DescribeConfigs (32), versions 1-4.

v1 sources and synonyms · v3 types and documentation · v4 flexible.

Resources: topics, brokers, the cluster-wide broker default ("" as a broker's name), brokers' loggers (`broker_loggers.py`), and
groups, which need not exist. A broker's own port describes that broker only, as in Kafka. The bootstrap port describes any.

All broker configs of Kafka are described, also those without an effect here, which the documentation says. The value of a secret
and of an unknown config is null, as in Kafka.

Differences from Kafka: client metrics answer INVALID_REQUEST until they are built. In a request with more than `REPEATED_MAX`
resources, one that is named twice is described once.
"""

import asyncio
from typing import Final

from libs.cluster.configs.definitions import BROKER, GROUP, TOPIC
from libs.cluster.configs.describe import DescribedConfig, describe
from libs.cluster.configs.resolve import NO_BROKER
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE
from libs.cluster.topic_names import is_legal
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from services.gateway.core.config_resources import Refused, check_broker
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.handlers.broker_loggers import BROKER_LOGGER, BrokerLevels

REPEATED_MAX: Final = 50
RESOURCES_PER_TURN: Final = 2
"""How many are described without a break. A broker has hundreds of configs, which take milliseconds."""


async def handle(gateway: GatewayState, context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    results = []
    described: dict[tuple[int, str], list[DescribedConfig] | Refused] = {}
    resources = _without_floods(request.resources)
    levels = BrokerLevels(gateway.image, context.broker_id)
    await levels.ask(gateway, [each.resource_name for each in resources if each.resource_type == BROKER_LOGGER])
    for resource in resources:
        result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        key = resource.resource_type, resource.resource_name
        if key not in described:
            if len(described) % RESOURCES_PER_TURN == RESOURCES_PER_TURN - 1:
                await asyncio.sleep(0)
            described[key] = _described(gateway, context, levels, resource)
        configs = described[key]
        if isinstance(configs, Refused):
            result.error_code, result.error_message = configs.error, configs.message
        else:
            # As in Kafka, no names and an empty list of names both ask for all.
            keys = resource.configuration_keys
            result.configs = [_entry(config, request) for config in configs if not keys or config.name in keys]
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _without_floods(resources: list[DescribeConfigsResource]) -> list[DescribeConfigsResource]:
    """A broker has hundreds of configs: named thousands of times, it would fill the memory."""
    if len(resources) <= REPEATED_MAX:
        return resources
    return list({(resource.resource_type, resource.resource_name): resource for resource in resources}.values())


def _described(
    gateway: GatewayState, context: RequestContext, levels: BrokerLevels, resource: DescribeConfigsResource
) -> list[DescribedConfig] | Refused:
    try:
        if resource.resource_type == BROKER_LOGGER:
            return levels.describe(resource.resource_name)
        return _describe(gateway, context, resource)
    except Refused as refused:
        return refused


def _describe(gateway: GatewayState, context: RequestContext, resource: DescribeConfigsResource) -> list[DescribedConfig]:
    image, name = gateway.image, resource.resource_name
    if resource.resource_type == TOPIC:
        if not is_legal(name):
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid")
        if name not in image.topics:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        broker_id = context.broker_id if context.broker_id >= 0 else NO_BROKER
        static = _started_with(image, broker_id)
        return describe(image, TOPIC, name, broker_id=broker_id, static=static, replication_factor=_factor(image, name))
    if resource.resource_type == BROKER:
        if not name:
            return describe(image, BROKER, name)
        broker_id = check_broker(image, context.broker_id, name)
        return describe(image, BROKER, str(broker_id), static=_static(gateway, context, broker_id))
    if resource.resource_type == GROUP:
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe(image, GROUP, name)
    raise Refused(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")


def _factor(image: ClusterImage, topic: str) -> int:
    first = image.partition(bytes.fromhex(image.topics[topic].topic_id), 0)
    return first.replication_factor if first is not None else 1


def _static(gateway: GatewayState, context: RequestContext, broker_id: int) -> dict[str, str]:
    """The broker's fixed configs, as far as its registration and its gateway know them."""
    static = {"node.id": str(broker_id), "broker.id": str(broker_id)} | _started_with(gateway.image, broker_id)
    member = gateway.image.members(STORAGE).get(broker_id)
    if member is not None and member.rack:
        static["broker.rack"] = member.rack
    address = gateway.broker_endpoint(broker_id, context)
    if address is not None:
        static["advertised.listeners"] = f"{context.listener}://{address[0]}:{address[1]}"
    return static


def _started_with(image: ClusterImage, broker_id: int) -> dict[str, str]:
    member = image.members(STORAGE).get(broker_id)
    return member.configs if member is not None else {}


def _entry(config: DescribedConfig, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = [
        DescribeConfigsSynonym(each.name, None if config.sensitive else each.value, each.source)
        for each in (config.synonyms if request.include_synonyms else ())
    ]
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.read_only,
        config_source=config.source,
        is_sensitive=config.sensitive,
        synonyms=synonyms,
        config_type=config.type,
        documentation=config.documentation if request.include_documentation else None,
    )


SERVED_API: Final = ServedApi(APIS[ApiKey.DESCRIBE_CONFIGS], handle)

"""DescribeCluster (60), versions 0-2.

v1 endpoint type · v2 fenced brokers, on request.

Differences from Kafka: none known. A fenced broker is a storage node that has registered once and is not alive.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from services.gateway.core.cluster_view import CLUSTER_OPERATIONS, ClusterView
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext

BROKERS, CONTROLLERS = 1, 2


async def handle(gateway: GatewayState, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
            endpoint_type=BROKERS,
        )
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
            endpoint_type=BROKERS,
        )
    image = gateway.image
    view = ClusterView(image, lambda node_id: gateway.broker_endpoint(node_id, context))
    brokers = view.brokers + (view.fenced_brokers() if request.include_fenced_brokers else [])
    response = DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=image.cluster_id,
        controller_id=view.controller_id(context.broker_id),
        brokers=[DescribeClusterBroker(b.node_id, b.host, b.port, b.rack, b.fenced) for b in brokers],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


SERVED_API: Final = ServedApi(APIS[ApiKey.DESCRIBE_CLUSTER], handle)

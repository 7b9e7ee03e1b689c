"""What each dashboard shows."""

from typing import Final

from tests.monitoring.descriptions.cluster import CLUSTER
from tests.monitoring.descriptions.gateway import GATEWAY
from tests.monitoring.descriptions.groups import GROUPS
from tests.monitoring.descriptions.pipeline import PIPELINE
from tests.monitoring.descriptions.quotas import QUOTAS
from tests.monitoring.descriptions.replication import REPLICATION
from tests.monitoring.descriptions.storage import STORAGE
from tests.monitoring.descriptions.topics import TOPICS
from tests.monitoring.descriptions.traces import TRACES
from tests.monitoring.descriptions.transactions import TRANSACTIONS

DASHBOARDS: Final = (CLUSTER, TOPICS, GATEWAY, STORAGE, REPLICATION, GROUPS, TRANSACTIONS, QUOTAS, PIPELINE, TRACES)

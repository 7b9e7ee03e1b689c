"""One module for each family of APIs."""

from tests.differential.scenarios import (
    api_versions,
    cluster,
    config_bounds,
    configs,
    delete_records,
    fetch,
    framing,
    group_configs,
    list_offsets,
    metadata,
    moving_replicas,
    offset_for_leader_epoch,
    offsets,
    produce,
    produce_opened,
    topic_administration,
)

ALL = (
    *metadata.SCENARIOS,
    *produce.SCENARIOS,
    *produce_opened.SCENARIOS,
    *fetch.SCENARIOS,
    *list_offsets.SCENARIOS,
    *delete_records.SCENARIOS,
    *offset_for_leader_epoch.SCENARIOS,
    *moving_replicas.SCENARIOS,
    *api_versions.SCENARIOS,
    *topic_administration.SCENARIOS,
    *configs.SCENARIOS,
    *config_bounds.SCENARIOS,
    *group_configs.SCENARIOS,
    *offsets.SCENARIOS,
    *cluster.SCENARIOS,
    *framing.SCENARIOS,
)

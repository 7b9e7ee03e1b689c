"""The id of a cluster, in Kafka's form."""

import base64

from services.controller.core.topics.topics import Randomness, new_topic_id


def new_cluster_id(random: Randomness) -> str:
    """22 characters: a UUID in URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(new_topic_id(random, lambda _: False)).rstrip(b"=").decode()

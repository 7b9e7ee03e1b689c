"""OffsetCommit (8), versions 2-10. The group's coordinator decides; its answer comes back as it is.

v5 no retention time · v6 leader epoch · v7 static members (KIP-345) · v8 flexible · v9 member epochs (KIP-848) · v10 topic ids.

Where there is no answer each partition has the error. NOT_COORDINATOR then means that nobody knows whether it was done.

Differences from Kafka: any broker id takes it, whoever its group's coordinator is.
"""

from services.gateway import relay

begin = relay.of_group

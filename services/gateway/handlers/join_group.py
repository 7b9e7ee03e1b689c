"""JoinGroup (11), versions 0-9. The group's coordinator decides; its answer comes back as it is.

v1 rebalance timeout · v4 MEMBER_ID_REQUIRED (KIP-394) · v5 static members (KIP-345) · v6 flexible · v7 protocol type · v8 reason
(KIP-800) · v9 skip_assignment.

A join waits for the other members, for no longer than its rebalance timeout. It ends when its client hangs up. When its
coordinator goes away it answers NOT_COORDINATOR; so it does when this gateway ends, since nobody else could answer it here.

Differences from Kafka: any broker id takes it, whoever its group's coordinator is.
"""

from services.gateway import relay

begin = relay.of_group

"""AddPartitionsToTxn (24), versions 0-3. The transactional id's coordinator decides, and its answer is relayed unchanged.

v2 PRODUCER_FENCED · v3 flexible. From version 4 on brokers ask it; here storage nodes ask coordinators themselves
(`libs/rpc/contracts/transactions.py`).

A request that was sent and not answered is not sent again: it could begin the client's next transaction. The client gets
NOT_COORDINATOR, and asks again itself.

Differences from Kafka: any broker id accepts it, wherever the transactional id's coordinator is. Versions 4 and 5 are not served.
"""

from services.gateway.groups import relay

begin = relay.begin_request

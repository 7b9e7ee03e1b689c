"""Advice for what gateways and coordinators log."""

from typing import Final

from tests.docs.log_advice.advice import Advice

GATEWAY: Final = {
    "a … failed": Advice(
        "A coordinator answered a request with an unexpected error.", "Look at the coordinator's log at the same time."
    ),
    "a … has no address that can be reached from here": Advice(
        "A coordinator on another host listens on a Unix socket only.", "Give that coordinator `PENSTOCK_RPC_TCP`."
    ),
    "a member has no address that can be reached from here": Advice(
        "A process on another host listens on a Unix socket only.", "Give that process `PENSTOCK_RPC_TCP`."
    ),
    "a …'s answer cannot be read": Advice("Gateway and coordinator have different versions.", "Upgrade both to one version."),
    "authentication failed unexpectedly": Advice(
        "A fault of the gateway. The client's connection was closed.", "Report it, with the client's name and version."
    ),
    "broker port not opened": Advice(
        "The port of one broker id is taken. Clients of that broker cannot connect.",
        "Free the port, or choose another `PENSTOCK_PORT_BASE`.",
    ),
    "new certificate of this gateway not used": Advice(
        "Files of a listener with TLS have changed and cannot be used; the former ones stay in force. `reason` has the fault.",
        "Put the files right before the former certificate expires: [security](../security.md#a-listener-with-tls).",
    ),
    "listeners need one port": Advice(
        "The gateway does not start: ports of broker ids of one listener are those of another. `reason` names the settings.",
        "Move one of the listeners so far that each broker id has a port of its own on both.",
    ),
    "TLS cannot be served: …": Advice(
        "The gateway does not start: the key or certificate of a listener cannot be used. The text has the fault.",
        "Make them as in [a certificate](../security.md#a-certificate).",
    ),
    "ACLs of a later version ignored": Advice(
        "A later version has stored ACLs of kinds that this one does not know. They match no request. `count` has their number.",
        "Upgrade this gateway: what those ACLs deny is allowed here, and what they allow is denied.",
    ),
    "client connection closed": Advice(
        "A client's connection was ended. `reason` and `detail` tell why.",
        "Look up `reason` in [troubleshooting](../use/troubleshooting.md).",
    ),
    "client connection refused": Advice(
        "A limit of connections was reached.", "Raise `ulimit -n` or the limit, add a gateway, or find the client."
    ),
    "quota manager's answer ignored": Advice(
        "Another process answers in the quota manager's name, or one of another version.", "Look at that node and its version."
    ),
    "client connections beyond a lowered limit": Advice(
        "`max.connections` was set below what is there. Connections that were silent longest are closed.", "Nothing."
    ),
    "client connections wait": Advice(
        "Connections are made faster than `max.connection.creation.rate`.",
        "Raise the limit, or find the client that connects again and again.",
    ),
    "fetch failed": Advice("A storage node's answer cannot be read.", "Upgrade both to one version."),
    "signing keys not read": Advice(
        "The key set for tokens of OAUTHBEARER cannot be read. The last keys stay. Without any, tokens are denied.",
        "`reason` tells why: look at the endpoint or the file of `PENSTOCK_SASL_OAUTHBEARER_JWKS_ENDPOINT_URL`.",
    ),
    "gateway has ended": Advice("Another gateway is gone. Clients are no longer sent to it.", "Start it again."),
}

COORDINATORS: Final = {
    "a decision cannot be written": Advice(
        "The records of a request or a timer fit no batch. Nothing has changed. A timer's decision is tried again every 10 s.",
        "Give `max.message.bytes` of `__consumer_offsets` and `__transaction_state` its default, or split the request.",
    ),
    "a smaller decision was made": Advice(
        "The usual decision fitted no batch. `reason` tells its size. A group stays in the consumer protocol, or expired entries "
        "are removed one by one.",
        "None, if `max.message.bytes` of the coordinators' topics has its default.",
    ),
    "a transaction waits for a topic that the metadata lack since they were restored": Advice(
        "The transaction is decided, and its marker has nowhere to go. Its client gets CONCURRENT_TRANSACTIONS.",
        "[Rebuild the metadata](restoring-metadata.md) from the nodes that have the topic. If it may stay lost, create one of "
        "its name.",
    ),
    "malformed request": Advice(
        "A client sent a request that cannot be read. `peer` names it.", "Update the client's library, or find what connects."
    ),
    "settings of groups cannot be read: the previous ones stay": Advice(
        "A newer version wrote a broker config that this one does not know.", "Upgrade the coordinator."
    ),
    "shard cannot be read": Advice(
        "A batch of `__consumer_offsets` or `__transaction_state` is damaged. Its groups or transactions wait.",
        "Let another replica lead, or [verify](../inspect.md) the partition's log.",
    ),
    "the log refuses a batch as too large": Advice(
        "`max.message.bytes` of `__consumer_offsets` or `__transaction_state` was lowered a moment ago. Clients send again.",
        "Give the topic its default back, if the line returns.",
    ),
    "stopping, though others could take the shards": Advice(
        "A coordinator stops before the others have taken its groups. They take them a moment later.", "None."
    ),
}

"""Kafka 4.2's broker configs without an effect here.

`_without_effect` are tunings: they are accepted where Kafka accepts them, kept, and described as such. `_refused` ask for a
protection, a limit or a part that Penstock lacks: they accept their default only, since a cluster that ignored them would lack
what they promise. Each group begins with what takes the place of its configs. Names, types, defaults and bounds are Kafka's own,
which tests/compat/differential/test_broker_config_table.py compares. A config that gets an effect moves to `broker_table.py`.
"""

from dataclasses import replace
from enum import Enum, auto
from typing import Final

from libs.cluster.configs.values import Check, ConfigDef, ConfigType, any_case, at_least, between, list_of, not_empty, one_of

BOOLEAN, CLASS, DOUBLE, INT, LIST = ConfigType.BOOLEAN, ConfigType.CLASS, ConfigType.DOUBLE, ConfigType.INT, ConfigType.LIST
LONG, PASSWORD, SHORT, STRING = ConfigType.LONG, ConfigType.PASSWORD, ConfigType.SHORT, ConfigType.STRING


class Change(Enum):
    """Where and when a config can be set."""

    ANY = auto()  # at run time, for one broker or all, and at a start
    ONE = auto()  # at run time, for one broker, and at a start
    LISTENER = auto()  # at run time, for a listener of one broker, and at a start
    START = auto()  # at a start only
    HIDDEN = auto()  # at a start only; described only where it is set


ANY, ONE, LISTENER, START, HIDDEN = Change

Row = tuple[str, ConfigType, str | None, Check | None, str, Change]
"""Name, type, default, bounds, importance, change."""


def _without_effect(instead: str, *rows: Row) -> tuple[ConfigDef, ...]:
    return tuple(
        ConfigDef(
            name,
            kind,
            default,
            instead,
            check,
            importance,
            read_only=change in (START, HIDDEN),
            one_broker=change in (ONE, LISTENER),
            per_listener=change is LISTENER,
            hidden=change is HIDDEN,
            effect=False,
        )
        for name, kind, default, check, importance, change in rows
    )


def _refused(instead: str, *rows: Row) -> tuple[ConfigDef, ...]:
    """Configs that accept their default only. The refusal ends with `instead`."""
    return tuple(replace(config, served=False) for config in _without_effect(instead, *rows))


# fmt: off
_THREADS_AND_CONNECTIONS: Final = (
    *_without_effect(
        "A gateway process serves all of its connections in one event loop. More gateways (make up GATEWAYS=) take the "
        "place of more network threads.",
        ("num.network.threads", INT, "3", at_least(1), "high", ANY),
    ),
    *_without_effect(
        "A storage node handles requests in one event loop, beside threads of each log directory. More storage nodes "
        "(make up STORAGE=) or directories take the place of more I/O threads.",
        ("num.io.threads", INT, "8", at_least(1), "high", ANY),
    ),
    *_without_effect(
        "The event loop of each process, its disks' threads and child processes do that work.",
        ("background.threads", INT, "10", at_least(1), "high", ANY),
    ),
    *_without_effect(
        "PENSTOCK_RECOVERY_PROCESSES of a storage node decides how many logs are recovered side by side.",
        ("num.recovery.threads.per.data.dir", INT, "2", at_least(1), "high", ANY),
    ),
    *_without_effect(
        "A follower has one fetcher for each leader's node, which pulls all partitions together.",
        ("num.replica.fetchers", INT, "1", at_least(1), "high", ANY),
    ),
    *_without_effect(
        "The threads of a log directory copy replicas to it. replica.alter.log.dirs.io.max.bytes.per.second limits them.",
        ("num.replica.alter.log.dirs.threads", INT, None, None, "high", START),
    ),
    *_refused(
        "PENSTOCK_CONNECTIONS_MAX of a gateway limits its connections.",
        ("max.connections", INT, "2147483647", at_least(0), "medium", ANY),
    ),
    *_refused(
        "PENSTOCK_CONNECTIONS_PER_IP_MAX of a gateway limits the connections from one address.",
        ("max.connections.per.ip", INT, "2147483647", at_least(0), "medium", ANY),
    ),
    *_refused(
        "No address has a limit of its own.",
        ("max.connections.per.ip.overrides", STRING, "", None, "medium", ANY),
    ),
    *_refused(
        "The rate of new connections has no limit.",
        ("max.connection.creation.rate", INT, "2147483647", at_least(0), "medium", ANY),
    ),
    *_refused(
        "PENSTOCK_IDLE_S_MAX of a gateway decides when an idle connection is closed.",
        ("connections.max.idle.ms", LONG, "600000", None, "medium", START),
    ),
    *_refused(
        "PENSTOCK_CONNECTION_REQUESTS_MAX of a gateway limits the unanswered requests of each connection.",
        ("queued.max.requests", INT, "500", at_least(1), "high", START),
    ),
    *_refused(
        "PENSTOCK_QUEUED_REQUEST_BYTES_MAX of a gateway limits the bytes of unanswered requests.",
        ("queued.max.request.bytes", LONG, "-1", None, "medium", START),
    ),
    *_without_effect(
        "The kernel sizes the receive buffers of gateways' sockets.",
        ("socket.receive.buffer.bytes", INT, "102400", None, "high", START),
    ),
    *_without_effect(
        "PENSTOCK_SOCKET_SEND_BUFFER_BYTES of a gateway sizes the send buffers of client connections.",
        ("socket.send.buffer.bytes", INT, "102400", None, "high", START),
    ),
    *_without_effect(
        "Up to 1024 connections of a gateway wait to be accepted, if the kernel allows it.",
        ("socket.listen.backlog.size", INT, "50", at_least(1), "medium", START),
    ),
    *_without_effect(
        "Processes call each other by Penstock's own RPC: each call has a deadline, and PENSTOCK_SILENCE_S ends a connection "
        "whose other end is silent.",
        ("controller.socket.timeout.ms", INT, "30000", None, "medium", START),
        ("replica.socket.receive.buffer.bytes", INT, "65536", None, "high", START),
        ("replica.socket.timeout.ms", INT, "30000", None, "high", START),
        ("request.timeout.ms", INT, "30000", None, "high", START),
        ("socket.connection.setup.timeout.max.ms", LONG, "30000", None, "medium", START),
        ("socket.connection.setup.timeout.ms", LONG, "10000", None, "medium", START),
    ),
    *_without_effect(
        "A request that waits is forgotten as soon as it ends, so there is nothing to purge.",
        ("delete.records.purgatory.purge.interval.requests", INT, "1", None, "medium", START),
        ("fetch.purgatory.purge.interval.requests", INT, "1000", None, "medium", START),
        ("producer.purgatory.purge.interval.requests", INT, "1000", None, "medium", START),
        ("share.fetch.purgatory.purge.interval.requests", INT, "1000", None, "medium", START),
    ),
    *_without_effect(
        "Clients' incremental fetch sessions are not served yet.",
        ("max.incremental.fetch.session.cache.slots", INT, "1000", at_least(0), "medium", START),
    ),
    *_without_effect(
        "A gateway has one listener. PENSTOCK_LISTENER_NAME and PENSTOCK_LISTEN_HOST set it, and processes call each "
        "other by Penstock's own RPC.",
        ("controller.listener.names", LIST, None, None, "high", START),
        ("early.start.listeners", LIST, None, None, "high", START),
        ("inter.broker.listener.name", STRING, None, None, "medium", START),
    ),
)

_STORAGE: Final = (
    *_without_effect(
        "Compaction reads segments through the page cache, without buffers of that size.",
        ("log.cleaner.io.buffer.size", INT, "524288", at_least(0), "medium", ANY),
    ),
    *_without_effect(
        "The memory of log.cleaner.dedupe.buffer.size is used whole.",
        ("log.cleaner.io.buffer.load.factor", DOUBLE, "0.9", None, "medium", ANY),
    ),
    *_without_effect(
        "PENSTOCK_RECOVERY_CHECKPOINT_S of a storage node is the interval of recovery points.",
        ("log.flush.offset.checkpoint.interval.ms", INT, "60000", at_least(0), "high", START),
    ),
    *_without_effect(
        "A storage node writes log start offsets with its other checkpoints, and before it removes segments.",
        ("log.flush.start.offset.checkpoint.interval.ms", INT, "60000", at_least(0), "high", START),
    ),
    *_without_effect(
        "PENSTOCK_HIGH_WATERMARK_CHECKPOINT_S of a storage node is that interval.",
        ("replica.high.watermark.checkpoint.interval.ms", LONG, "5000", None, "high", START),
    ),
    *_without_effect(
        "The first check comes within 30 seconds of a start.",
        ("log.initial.task.delay.ms", LONG, "30000", at_least(0), "low", HIDDEN),
    ),
    *_without_effect(
        "A storage node whose log directory failed goes on with the others.",
        ("log.dir.failure.timeout.ms", LONG, "30000", at_least(1), "low", START),
    ),
    *_without_effect(
        "A follower tries again after 50 milliseconds, then after twice as long each time, up to a second.",
        ("replica.fetch.backoff.ms", INT, "1000", at_least(0), "medium", START),
    ),
    *_without_effect(
        "Throttles of copied bytes count continuously, without windows.",
        ("alter.log.dirs.replication.quota.window.num", INT, "11", at_least(1), "low", START),
        ("alter.log.dirs.replication.quota.window.size.seconds", INT, "1", at_least(1), "low", START),
        ("replication.quota.window.num", INT, "11", at_least(1), "low", START),
        ("replication.quota.window.size.seconds", INT, "1", at_least(1), "low", START),
    ),
    *_without_effect(
        "There is no remote storage yet.",
        ("remote.fetch.max.wait.ms", INT, "500", at_least(1), "medium", ANY),
        ("remote.list.offsets.request.timeout.ms", LONG, "30000", at_least(1), "medium", ANY),
        ("remote.log.index.file.cache.total.size.bytes", LONG, "1073741824", at_least(1), "low", ANY),
        ("remote.log.manager.copier.thread.pool.size", INT, "10", at_least(1), "medium", ANY),
        ("remote.log.manager.copy.max.bytes.per.second", LONG, "9223372036854775807", at_least(1), "medium", ANY),
        ("remote.log.manager.copy.quota.window.num", INT, "11", at_least(1), "medium", START),
        ("remote.log.manager.copy.quota.window.size.seconds", INT, "1", at_least(1), "medium", START),
        ("remote.log.manager.expiration.thread.pool.size", INT, "10", at_least(1), "medium", ANY),
        ("remote.log.manager.fetch.max.bytes.per.second", LONG, "9223372036854775807", at_least(1), "medium", ANY),
        ("remote.log.manager.fetch.quota.window.num", INT, "11", at_least(1), "medium", START),
        ("remote.log.manager.fetch.quota.window.size.seconds", INT, "1", at_least(1), "medium", START),
        ("remote.log.manager.follower.thread.pool.size", INT, "2", at_least(1), "medium", ANY),
        ("remote.log.manager.task.interval.ms", LONG, "30000", at_least(1), "low", START),
        ("remote.log.manager.task.retry.backoff.max.ms", LONG, "30000", at_least(1), "low", HIDDEN),
        ("remote.log.manager.task.retry.backoff.ms", LONG, "500", at_least(1), "low", HIDDEN),
        ("remote.log.manager.task.retry.jitter", DOUBLE, "0.2", between(0, 0.5), "low", HIDDEN),
        ("remote.log.manager.thread.pool.size", INT, "2", at_least(1), "medium", START),
        ("remote.log.metadata.custom.metadata.max.bytes", INT, "128", at_least(0), "low", START),
        ("remote.log.metadata.manager.class.name", STRING,
         "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager", not_empty, "medium", START),
        ("remote.log.metadata.manager.class.path", STRING, None, None, "medium", START),
        ("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", not_empty, "medium", START),
        ("remote.log.metadata.manager.listener.name", STRING, None, not_empty, "medium", START),
        ("remote.log.reader.max.pending.tasks", INT, "100", at_least(1), "medium", START),
        ("remote.log.reader.threads", INT, "10", at_least(1), "medium", ANY),
        ("remote.log.storage.manager.class.name", STRING, None, not_empty, "medium", START),
        ("remote.log.storage.manager.class.path", STRING, None, None, "medium", START),
        ("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", not_empty, "medium", START),
    ),
    *_refused(
        "Remote storage is not built yet.",
        ("remote.log.storage.system.enable", BOOLEAN, "false", None, "medium", START),
    ),
)

_CLUSTER: Final = (
    *_without_effect(
        "There is no KRaft quorum: etcd keeps the metadata. PENSTOCK_ETCD names its members.",
        ("controller.performance.always.log.threshold.ms", LONG, "2000", at_least(0), "medium", HIDDEN),
        ("controller.performance.sample.period.ms", LONG, "60000", at_least(100), "medium", HIDDEN),
        ("controller.quorum.append.linger.ms", INT, "25", at_least(0), "medium", START),
        ("controller.quorum.auto.join.enable", BOOLEAN, "false", None, "low", START),
        ("controller.quorum.bootstrap.servers", LIST, "", None, "high", START),
        ("controller.quorum.election.backoff.max.ms", INT, "1000", at_least(0), "high", START),
        ("controller.quorum.election.timeout.ms", INT, "1000", at_least(0), "high", START),
        ("controller.quorum.fetch.timeout.ms", INT, "2000", at_least(0), "high", START),
        ("controller.quorum.request.timeout.ms", INT, "2000", at_least(0), "medium", START),
        ("controller.quorum.retry.backoff.ms", INT, "20", at_least(0), "low", START),
        ("controller.quorum.voters", LIST, "", None, "high", START),
        ("internal.metadata.delete.delay.millis", LONG, "60000", None, "low", HIDDEN),
        ("internal.metadata.log.segment.bytes", INT, None, None, "low", HIDDEN),
        ("internal.metadata.max.batch.size.in.bytes", INT, "8388608", None, "low", HIDDEN),
        ("internal.metadata.max.fetch.size.in.bytes", INT, "8388608", None, "low", HIDDEN),
        ("metadata.log.dir", STRING, None, None, "high", START),
        ("metadata.log.max.record.bytes.between.snapshots", LONG, "20971520", at_least(1), "high", START),
        ("metadata.log.max.snapshot.interval.ms", LONG, "3600000", at_least(0), "high", START),
        ("metadata.log.segment.bytes", INT, "1073741824", at_least(8_388_608), "high", START),
        ("metadata.log.segment.ms", LONG, "604800000", None, "high", START),
        ("metadata.max.idle.interval.ms", INT, "500", at_least(0), "low", START),
        ("metadata.max.retention.bytes", LONG, "104857600", None, "high", START),
        ("metadata.max.retention.ms", LONG, "604800000", None, "high", START),
    ),
    *_without_effect(
        "Brokers are made of gateways, storage nodes, coordinators and controllers, each a process of its own.",
        ("process.roles", LIST, None, list_of("broker", "controller"), "high", START),
    ),
    *_without_effect(
        "PENSTOCK_SILENCE_S of all processes is how long a member may be silent until controllers take it for dead.",
        ("broker.session.timeout.ms", INT, "9000", None, "medium", START),
    ),
    *_without_effect(
        "Every process sends a heartbeat to each controller every 300 ms.",
        ("broker.heartbeat.interval.ms", INT, "2000", None, "medium", START),
    ),
    *_without_effect(
        "A process that starts waits for its registration as long as it takes.",
        ("initial.broker.registration.timeout.ms", INT, "60000", None, "medium", START),
    ),
    *_without_effect(
        "A storage node that is told to stop always hands over its leaderships first, for PENSTOCK_HAND_OVER_S at most.",
        ("controlled.shutdown.enable", BOOLEAN, "true", None, "medium", START),
    ),
    *_without_effect(
        "The controller makes an unclean election as soon as it is allowed and no other replica is left.",
        ("unclean.leader.election.interval.ms", LONG, "300000", at_least(1), "medium", HIDDEN),
    ),
    *_without_effect(
        "A process waits for etcd as long as it takes.",
        ("server.max.startup.time.ms", LONG, "9223372036854775807", at_least(0), "medium", HIDDEN),
    ),
    *_without_effect(
        "There are no unstable versions of APIs or features.",
        ("unstable.api.versions.enable", BOOLEAN, "false", None, "high", HIDDEN),
        ("unstable.feature.versions.enable", BOOLEAN, "false", None, "high", HIDDEN),
    ),
    *_without_effect(
        "Each process serves its metrics to Prometheus, at /metrics of its admin port.",
        ("kafka.metrics.polling.interval.secs", INT, "10", at_least(1), "low", START),
        ("metrics.num.samples", INT, "2", at_least(1), "low", START),
        ("metrics.recording.level", STRING, "INFO", None, "low", START),
        ("metrics.sample.window.ms", LONG, "30000", at_least(1), "low", START),
    ),
    *_without_effect(
        "Metrics of clients (KIP-714) are not collected.",
        ("telemetry.max.bytes", INT, "1048576", at_least(1), "low", START),
    ),
    *_without_effect(
        "There are no quotas yet.",
        ("controller.quota.window.num", INT, "11", at_least(1), "low", START),
        ("controller.quota.window.size.seconds", INT, "1", at_least(1), "low", START),
        ("quota.window.num", INT, "11", at_least(1), "low", START),
        ("quota.window.size.seconds", INT, "1", at_least(1), "low", START),
    ),
    *_refused(
        "Java classes cannot be loaded. Each process serves its metrics to Prometheus, at /metrics of its admin port.",
        ("kafka.metrics.reporters", LIST, "", None, "low", START),
        ("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter", None, "low", ANY),
    ),
    *_refused(
        "Values are taken as they are: no provider is asked for variables in them.",
        ("config.providers", LIST, "", None, "low", ANY),
    ),
    *_refused(
        "Java classes cannot be loaded, so such a policy would not be applied.",
        ("alter.config.policy.class.name", CLASS, None, None, "low", START),
        ("client.quota.callback.class", CLASS, None, None, "low", START),
        ("create.topic.policy.class.name", CLASS, None, None, "low", START),
    ),
)

_COORDINATORS: Final = (
    *_without_effect(
        "A coordinator process has one event loop. More coordinators (make up COORDINATORS=) take the place of more "
        "threads.",
        ("group.coordinator.threads", INT, "4", at_least(1), "high", START),
    ),
    *_without_effect(
        "A coordinator does not linger. It writes together what has gathered.",
        ("group.coordinator.append.linger.ms", INT, "-1", at_least(-1), "medium", START),
    ),
    *_without_effect(
        "A coordinator that takes over a shard reads its records in pieces of its own size.",
        ("offsets.load.buffer.size", INT, "5242880", at_least(1), "high", START),
    ),
    *_without_effect(
        "Offsets are stored as they are, without compression.",
        ("offsets.topic.compression.codec", INT, "0", None, "high", START),
    ),
    *_without_effect(
        "Leaders always ask the coordinator of a transaction, and wait for it for a bounded time. Timeouts are noticed at "
        "once.",
        ("add.partitions.to.txn.retry.backoff.max.ms", INT, "100", at_least(0), "high", START),
        ("add.partitions.to.txn.retry.backoff.ms", INT, "20", at_least(1), "high", START),
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, "10000", at_least(1), "low", START),
        ("transaction.partition.verification.enable", BOOLEAN, "true", None, "low", ANY),
        ("transaction.state.log.load.buffer.size", INT, "5242880", at_least(1), "high", START),
    ),
    *_refused(
        "Two-phase commit (KIP-939) is not built.",
        ("transaction.two.phase.commit.enable", BOOLEAN, "false", None, "low", START),
    ),
    *_without_effect(
        "Share groups are not built.",
        ("group.share.assignors", LIST, "simple", None, "medium", START),
        ("group.share.delivery.count.limit", INT, "5", between(2, 10), "medium", START),
        ("group.share.heartbeat.interval.ms", INT, "5000", at_least(1), "medium", START),
        ("group.share.initialize.retry.interval.ms", INT, "30000", at_least(1), "low", HIDDEN),
        ("group.share.max.heartbeat.interval.ms", INT, "15000", at_least(1), "medium", START),
        ("group.share.max.record.lock.duration.ms", INT, "60000", between(30000, 3600000), "medium", START),
        ("group.share.max.session.timeout.ms", INT, "60000", at_least(1), "medium", START),
        ("group.share.max.share.sessions", INT, "2000", at_least(1), "medium", START),
        ("group.share.max.size", INT, "200", between(1, 1000), "medium", START),
        ("group.share.min.heartbeat.interval.ms", INT, "5000", at_least(1), "medium", START),
        ("group.share.min.record.lock.duration.ms", INT, "15000", between(1000, 30000), "medium", START),
        ("group.share.min.session.timeout.ms", INT, "45000", at_least(1), "medium", START),
        ("group.share.partition.max.record.locks", INT, "2000", between(100, 10000), "medium", START),
        ("group.share.persister.class.name", STRING, "org.apache.kafka.server.share.persister.DefaultStatePersister", None,
         "medium", HIDDEN),
        ("group.share.record.lock.duration.ms", INT, "30000", between(1000, 3600000), "medium", START),
        ("group.share.session.timeout.ms", INT, "45000", at_least(1), "medium", START),
        ("share.coordinator.append.linger.ms", INT, "-1", at_least(-1), "medium", START),
        ("share.coordinator.cold.partition.snapshot.interval.ms", INT, "300000", at_least(1), "low", HIDDEN),
        ("share.coordinator.load.buffer.size", INT, "5242880", at_least(1), "high", START),
        ("share.coordinator.snapshot.update.records.per.snapshot", INT, "500", at_least(0), "medium", START),
        ("share.coordinator.state.topic.compression.codec", INT, "0", None, "high", START),
        ("share.coordinator.state.topic.min.isr", SHORT, "2", at_least(1), "high", START),
        ("share.coordinator.state.topic.num.partitions", INT, "50", at_least(1), "high", START),
        ("share.coordinator.state.topic.prune.interval.ms", INT, "300000", at_least(1), "low", HIDDEN),
        ("share.coordinator.state.topic.replication.factor", SHORT, "3", at_least(1), "high", START),
        ("share.coordinator.state.topic.segment.bytes", INT, "104857600", at_least(1), "high", START),
        ("share.coordinator.threads", INT, "1", at_least(1), "medium", START),
        ("share.coordinator.write.timeout.ms", INT, "5000", at_least(1), "high", START),
    ),
    *_refused("Share groups are not built.", ("group.share.enable", BOOLEAN, "false", None, "medium", HIDDEN)),
    *_without_effect(
        "Streams groups are not built.",
        ("group.streams.heartbeat.interval.ms", INT, "5000", at_least(1), "medium", START),
        ("group.streams.initial.rebalance.delay.ms", INT, "3000", at_least(0), "medium", START),
        ("group.streams.max.heartbeat.interval.ms", INT, "15000", at_least(1), "medium", START),
        ("group.streams.max.session.timeout.ms", INT, "60000", at_least(1), "medium", START),
        ("group.streams.max.size", INT, "2147483647", at_least(1), "medium", START),
        ("group.streams.max.standby.replicas", INT, "2", at_least(0), "medium", START),
        ("group.streams.min.heartbeat.interval.ms", INT, "5000", at_least(1), "medium", START),
        ("group.streams.min.session.timeout.ms", INT, "45000", at_least(1), "medium", START),
        ("group.streams.num.standby.replicas", INT, "0", at_least(0), "medium", START),
        ("group.streams.session.timeout.ms", INT, "45000", at_least(1), "medium", START),
    ),
)

_SECURITY: Final = (
    *_refused(
        "There is no authorization yet. A cluster must not look protected without being it.",
        ("authorizer.class.name", STRING, "", None, "low", START),
    ),
    *_refused(
        "Clients are not authenticated yet, so all have the same principal.",
        ("connection.failed.authentication.delay.ms", INT, "100", at_least(0), "low", START),
        ("connections.max.reauth.ms", LONG, "0", None, "medium", START),
        ("principal.builder.class", CLASS, "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
         None, "medium", ONE),
        ("sasl.client.callback.handler.class", CLASS, None, None, "medium", START),
        ("sasl.enabled.mechanisms", LIST, "GSSAPI", None, "medium", ONE),
        ("sasl.jaas.config", PASSWORD, None, None, "medium", ONE),
        ("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", None, "medium", ONE),
        ("sasl.kerberos.min.time.before.relogin", LONG, "60000", None, "medium", ONE),
        ("sasl.kerberos.principal.to.local.rules", LIST, "DEFAULT", None, "medium", ONE),
        ("sasl.kerberos.service.name", STRING, None, None, "medium", ONE),
        ("sasl.kerberos.ticket.renew.jitter", DOUBLE, "0.05", None, "medium", ONE),
        ("sasl.kerberos.ticket.renew.window.factor", DOUBLE, "0.8", None, "medium", ONE),
        ("sasl.login.callback.handler.class", CLASS, None, None, "medium", START),
        ("sasl.login.class", CLASS, None, None, "medium", START),
        ("sasl.login.connect.timeout.ms", INT, None, None, "low", START),
        ("sasl.login.read.timeout.ms", INT, None, None, "low", START),
        ("sasl.login.refresh.buffer.seconds", SHORT, "300", None, "medium", ONE),
        ("sasl.login.refresh.min.period.seconds", SHORT, "60", None, "medium", ONE),
        ("sasl.login.refresh.window.factor", DOUBLE, "0.8", None, "medium", ONE),
        ("sasl.login.refresh.window.jitter", DOUBLE, "0.05", None, "medium", ONE),
        ("sasl.login.retry.backoff.max.ms", LONG, "10000", None, "low", START),
        ("sasl.login.retry.backoff.ms", LONG, "100", None, "low", START),
        ("sasl.mechanism.controller.protocol", STRING, "GSSAPI", None, "high", START),
        ("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", None, "medium", ONE),
        ("sasl.oauthbearer.assertion.algorithm", STRING, "RS256", any_case("es256", "rs256"), "medium", START),
        ("sasl.oauthbearer.assertion.claim.aud", STRING, None, None, "medium", START),
        ("sasl.oauthbearer.assertion.claim.exp.seconds", INT, "300", between(0, 86400), "low", START),
        ("sasl.oauthbearer.assertion.claim.iss", STRING, None, None, "medium", START),
        ("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, "false", None, "medium", START),
        ("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, "60", between(0, 3600), "low", START),
        ("sasl.oauthbearer.assertion.claim.sub", STRING, None, None, "medium", START),
        ("sasl.oauthbearer.assertion.file", STRING, None, None, "medium", START),
        ("sasl.oauthbearer.assertion.private.key.file", STRING, None, None, "medium", START),
        ("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, None, "medium", START),
        ("sasl.oauthbearer.assertion.template.file", STRING, None, None, "medium", START),
        ("sasl.oauthbearer.client.credentials.client.id", STRING, None, None, "medium", START),
        ("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None, None, "medium", START),
        ("sasl.oauthbearer.clock.skew.seconds", INT, "30", None, "low", START),
        ("sasl.oauthbearer.expected.audience", LIST, "", None, "low", START),
        ("sasl.oauthbearer.expected.issuer", STRING, None, None, "low", START),
        ("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, "3600000", None, "low", START),
        ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, "10000", None, "low", START),
        ("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, "100", None, "low", START),
        ("sasl.oauthbearer.jwks.endpoint.url", STRING, None, None, "medium", START),
        ("sasl.oauthbearer.jwt.retriever.class", CLASS, "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
         None, "medium", START),
        ("sasl.oauthbearer.jwt.validator.class", CLASS, "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
         None, "medium", START),
        ("sasl.oauthbearer.scope", STRING, None, None, "medium", START),
        ("sasl.oauthbearer.scope.claim.name", STRING, "scope", None, "low", START),
        ("sasl.oauthbearer.sub.claim.name", STRING, "sub", None, "low", START),
        ("sasl.oauthbearer.token.endpoint.url", STRING, None, None, "medium", START),
        ("sasl.server.callback.handler.class", CLASS, None, None, "medium", START),
        ("sasl.server.max.receive.size", INT, "524288", None, "medium", START),
    ),
    *_refused(
        "There is no TLS yet. Clients and processes speak plain text.",
        ("listener.security.protocol.map", STRING,
         "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", None, "low", ONE),
        ("security.inter.broker.protocol", STRING, "PLAINTEXT", one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
         "medium", START),
        ("security.providers", STRING, None, None, "low", START),
        ("ssl.allow.dn.changes", BOOLEAN, "false", None, "low", START),
        ("ssl.allow.san.changes", BOOLEAN, "false", None, "low", START),
        ("ssl.cipher.suites", LIST, "", None, "medium", ONE),
        ("ssl.client.auth", STRING, "none", one_of("required", "requested", "none"), "medium", ONE),
        ("ssl.enabled.protocols", LIST, "TLSv1.2,TLSv1.3", None, "medium", ONE),
        ("ssl.endpoint.identification.algorithm", STRING, "https", None, "low", ONE),
        ("ssl.engine.factory.class", CLASS, None, None, "low", ONE),
        ("ssl.key.password", PASSWORD, None, None, "medium", LISTENER),
        ("ssl.keymanager.algorithm", STRING, "SunX509", None, "medium", ONE),
        ("ssl.keystore.certificate.chain", PASSWORD, None, None, "medium", LISTENER),
        ("ssl.keystore.key", PASSWORD, None, None, "medium", LISTENER),
        ("ssl.keystore.location", STRING, None, None, "medium", LISTENER),
        ("ssl.keystore.password", PASSWORD, None, None, "medium", LISTENER),
        ("ssl.keystore.type", STRING, "JKS", None, "medium", LISTENER),
        ("ssl.principal.mapping.rules", STRING, "DEFAULT", None, "low", START),
        ("ssl.protocol", STRING, "TLSv1.3", None, "medium", ONE),
        ("ssl.provider", STRING, None, None, "medium", ONE),
        ("ssl.secure.random.implementation", STRING, None, None, "low", ONE),
        ("ssl.trustmanager.algorithm", STRING, "PKIX", None, "medium", ONE),
        ("ssl.truststore.certificates", PASSWORD, None, None, "medium", LISTENER),
        ("ssl.truststore.location", STRING, None, None, "medium", LISTENER),
        ("ssl.truststore.password", PASSWORD, None, None, "medium", LISTENER),
        ("ssl.truststore.type", STRING, "JKS", None, "medium", LISTENER),
    ),
    *_refused(
        "There are no delegation tokens yet.",
        ("delegation.token.expiry.check.interval.ms", LONG, "3600000", at_least(1), "low", START),
        ("delegation.token.expiry.time.ms", LONG, "86400000", at_least(1), "medium", START),
        ("delegation.token.max.lifetime.ms", LONG, "604800000", at_least(1), "medium", START),
        ("delegation.token.secret.key", PASSWORD, None, None, "medium", START),
    ),
)
# fmt: on

WITHOUT_EFFECT: Final = (*_THREADS_AND_CONNECTIONS, *_STORAGE, *_CLUSTER, *_COORDINATORS, *_SECURITY)

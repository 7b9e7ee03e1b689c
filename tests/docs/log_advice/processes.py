"""Advice for what any process may log: start and stop, metadata, connections, files of its own."""

from typing import Final

from tests.docs.log_advice.advice import Advice

STARTS_AND_STOPS: Final = {
    "aborting": Advice(
        "A second signal came while the process drained, and ended it at once.", "Give a stop ten seconds or more."
    ),
    "admin port open to others without a token": Advice(
        "The admin port listens on more than loopback, and anybody who reaches it may look into the process, or profile it.",
        "Set `PENSTOCK_ADMIN_TOKEN_FILE`, or keep the port on a network of operators: [security](../security.md#admin-ports).",
    ),
    "new admin token not used": Advice(
        "The file of the admin token has changed and cannot be used; the former token stays in force. `reason` has the fault.",
        "Write one token into it, which the process's user may read: [security](../security.md#admin-ports).",
    ),
    "admin port refuses what is no HTTP": Advice(
        "Something sent bytes to the admin port that are no HTTP, or too long a URL. `reason` tells which.",
        "Look what on that host asks: a scanner, a client of TLS, a wrong port.",
    ),
    "a variable of OpenTelemetry is not heeded": Advice(
        "An `OTEL_…` variable has a value that Penstock cannot obey. `reason` names it, and `instead` tells what happens.",
        "None if it is meant for other programs. Otherwise correct it by [traces](tracing.md#send-them-to-a-collector).",
    ),
    "another process has taken this member's place": Advice(
        "A newer process with the same role and id has registered. This one ends.",
        "None after a restart. Otherwise give each process its own `PENSTOCK_NODE_ID`.",
    ),
    "data directory cannot be used": Advice(
        "`PENSTOCK_DATA_DIR` cannot be made, read or written. `reason` tells why.",
        "Mend owner, permissions or disk, and start again.",
    ),
    "data directory is in use by another process (PENSTOCK_DATA_DIR)": Advice(
        "Two processes were given one directory.", "Stop the other process, or give this one its own directory."
    ),
    "draining took too long": Advice(
        "A stop was cut short. `step` names what did not end.",
        "None if it is rare. Otherwise look for a slow disk or a dead peer.",
    ),
    "no admin token in this file (PENSTOCK_ADMIN_TOKEN_FILE)": Advice(
        "The process does not start: the file cannot be read, or has no token. `reason` tells which.",
        "Write one: [security](../security.md#admin-ports).",
    ),
    "starting anew": Advice(
        "The process executes its program again, after the metadata store went back in time.",
        "None. [Restoring metadata](restoring-metadata.md) tells what follows.",
    ),
    "stopping after a failure": Advice(
        "The process ends. `error` or `trace` tells why.",
        "Free the port, make room or mend the permission that `error` names. Report a `trace`.",
    ),
    "this version of Penstock, …, does not support the level that the cluster was raised to: …. "
    "Start the version that raised it, or a later one": Advice(
        "The cluster's feature level is above what this version knows.", "Start the version that raised it, or a later one."
    ),
    "no TLS with these files (PENSTOCK_RPC_TLS_CERTIFICATE, _KEY, _CA)": Advice(
        "The process does not start: its certificate, key or authorities cannot be used. `reason` has the fault.",
        "Make them as in [between hosts](../security.md#between-hosts).",
    ),
    "no TLS to etcd with these files (PENSTOCK_ETCD_CA_FILE, _CERT_FILE, _KEY_FILE)": Advice(
        "The process does not start: certificate, key or authorities for etcd cannot be used. `reason` has the fault.",
        "Make them as in [etcd](../security.md#etcd).",
    ),
    "the certificate of this process is another's (PENSTOCK_RPC_TLS_CERTIFICATE)": Advice(
        "The process does not start: `names` is what its certificate names, and `expected` what it should.",
        "Give it its own certificate: [between hosts](../security.md#between-hosts).",
    ),
    "there is no such setting": Advice(
        "A `PENSTOCK_…` variable has no effect. `did_you_mean` names one alike.", "Correct it by [settings](../settings.md)."
    ),
}

METADATA: Final = {
    "a peer's image cannot be used": Advice(
        "A peer offered metadata that cannot be read, or of another cluster.", "Check that all processes have the same version."
    ),
    "addresses of peers cannot be read": Advice(
        "The file of known peers is damaged. It is written anew.", "Check the disk of `path`."
    ),
    "addresses of peers could not be written": Advice(
        "The process could not note its peers. It would need etcd at its next start.", "Make room, or mend the disk of `path`."
    ),
    "membership lost": Advice(
        "The process's key in etcd is gone, since its lease ran out. It registers again.",
        "Look for pauses of the process, a slow etcd, or a cut network.",
    ),
    "metadata store is another one": Advice(
        "etcd holds another cluster, or is empty. The process keeps what it knows.",
        "Correct `PENSTOCK_ETCD`. If etcd lost its data, [rebuild it](restoring-metadata.md#rebuild).",
    ),
    "metadata store unavailable": Advice(
        "etcd does not answer. Produce, fetch and commits go on; changes wait.", "Bring etcd back; look at its log and disk."
    ),
    "metadata store went back in time: it was restored from a backup": Advice(
        "etcd has less than the process has seen. The process starts anew.",
        "None after a restoration. Otherwise find out who changed etcd.",
    ),
    "SCRAM credential unreadable": Advice(
        "A gateway cannot read the credential of one user in etcd. That user cannot log in; all others can.",
        "Set the user's password again with `kafka-configs`.",
    ),
    "metadata unreadable": Advice(
        "A key in etcd cannot be read. The process stays with the last metadata that it could read.",
        "Upgrade the process if others are newer. If a key was damaged by hand, restore it.",
    ),
    "peers belong to several clusters: none of them is followed": Advice(
        "`PENSTOCK_PEERS` names processes of different clusters.", "Correct `PENSTOCK_PEERS`."
    ),
    "registration waits for the metadata store": Advice(
        "The process cannot register. Others do not send it requests yet.", "Bring etcd back, or correct `PENSTOCK_ETCD`."
    ),
    "the mark of the metadata cannot be read": Advice(
        "`metadata-mark` is damaged. A restored etcd may go unnoticed by this process.", "Check the disk of `path`."
    ),
    "the mark of the metadata could not be written": Advice(
        "`metadata-mark` is out of date. A restored etcd may go unnoticed by this process.",
        "Make room, or mend the disk of `path`.",
    ),
    "uses the cluster image of a peer, since the metadata store does not answer": Advice(
        "The process started without etcd, by what a peer knows.", "Bring etcd back."
    ),
    "waits for the metadata store, or for a peer that has an image": Advice(
        "The process started while etcd is away, and no peer has helped. `asked` names the peers.",
        "Bring etcd back, or give `PENSTOCK_PEERS`.",
    ),
}

CONNECTIONS: Final = {
    "a controller has no address that can be reached from this host": Advice(
        "A controller on another host listens on a Unix socket only.", "Give that controller `PENSTOCK_RPC_TCP`."
    ),
    "bad request": Advice(
        "A peer sent an internal request that cannot be read.",
        "Check that versions match; keep other programs off the RPC ports.",
    ),
    "new certificate of this process not used": Advice(
        "The files of PENSTOCK_RPC_TLS_… have changed and cannot be used; the former ones stay in force. `reason` has the fault.",
        "Put the files right before the former certificate expires: [between hosts](../security.md#between-hosts).",
    ),
    "new certificate for etcd not used": Advice(
        "Changed files of PENSTOCK_ETCD_…_FILE cannot be used, or etcd refuses them; the former ones stay in force. "
        "`reason` has the fault.",
        "Put the files right before the former certificate expires: [etcd](../security.md#etcd). Those that etcd refuses are "
        "tried again every five seconds, and used once it takes them.",
    ),
    "etcd refuses a call": Advice(
        "etcd has users, and that of this process's certificate may not do what the process needs. It is logged once a minute. "
        "What was to be written is not.",
        "Do what `remedy` says. `openssl x509 -subject` shows the user as CN: [etcd](../security.md#etcd).",
    ),
    "call denied": Advice(
        "A process called what its role may not call, or spoke for another process. `reason` has which; `count` tells how often.",
        "Look at the process at `peer`: [who may call what](../security.md#between-processes). Keep strangers off the RPC ports.",
    ),
    "cannot accept": Advice(
        "No descriptor or memory was left for a new connection. It waits and is accepted later.",
        "Raise `ulimit -n`, or add a process.",
    ),
    "connection closed": Advice(
        "An RPC connection sent what is no RPC, or named another node, role or cluster. `reason` has which.",
        "Keep other programs off the RPC ports; correct ids and addresses.",
    ),
    "connection refused": Advice(
        "A new connection could not be set up. `reason` has the error.", "Raise `ulimit -n` if descriptors ran out."
    ),
    "file not read": Advice(
        "A segment file could not be handed to a gateway, by a disk error or for lack of descriptors.",
        "Look at the disk; raise `ulimit -n`.",
    ),
    "server is silent": Advice(
        "A process that was asked has not answered for seconds. The connection is given up.",
        "Look whether the process at `address` hangs, or the network drops packets.",
    ),
}

OWN_FILES: Final = {
    "lines of the log were lost": Advice(
        "`count` lines could not be written, since the volume was full.", "Make room on the volume of `file`."
    ),
    "log level changed": Advice("Somebody changed the level of the logger `changed`. `asked_by` names the client.", "None."),
    "the file of unused producer ids cannot be read": Advice(
        "A block of producer ids is skipped. None is given twice.", "Check the disk of `path`."
    ),
    "the file of unused producer ids cannot be removed; none is written from now on": Advice(
        "Producer ids are asked of the controller at each start.", "Mend the disk or the permissions of `path`, and restart."
    ),
    "the log file is not rotated, and grows": Advice(
        "The log file cannot be renamed. It is tried again.", "Mend the permissions of its directory, or make room."
    ),
    "unused producer ids were not written": Advice(
        "A restart skips a block of producer ids. None is given twice.", "Make room, or mend the disk of `path`."
    ),
}

TRACES: Final = {
    "traces are not exported": Advice(
        "The collector at `endpoint` did not take spans, and `reason` tells why. `spans_dropped` counts all that it lacks.",
        "Bring the collector back, or mend the endpoint ([traces](tracing.md#when-nothing-arrives)). Nothing else waits for it.",
    ),
}

PROCESSES: Final = STARTS_AND_STOPS | METADATA | CONNECTIONS | OWN_FILES | TRACES

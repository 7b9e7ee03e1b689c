"""The scaffold of a process: configuration, life cycle, admin port, child processes, connections to controllers and peers. It
imports rpc, cluster, commitlog, wire and telemetry."""

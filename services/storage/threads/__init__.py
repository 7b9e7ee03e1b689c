"""Threads, timers and turns of the event loop. It imports nothing of storage.

A storage node runs on one event loop. What blocks or loops over records runs beside it; each starts when there is work:

| threads | how many | for what | made in |
|---|---|---|---|
| `files-N` | 1 a log directory | jobs on its files: checkpoints, renames, removals | `services/storage/disks/disk_opening.py` |
| `sync-N` | 1 a log directory | its round of syncs | the same |
| `logs-N` | 8 a log directory | logs that open, are cut or close | the same |
| `reads-N` | 8 a log directory | lookups that wait for the disk | the same |
| `image` | 1 | its copy of the cluster image | `services/storage/opened_node.py` |
| `disk-reader` | up to 8 a disk | file ranges that must be read before they are sent | `libs/rpc/files/disk_readers.py` |

| child processes | how many | for what | made in |
|---|---|---|---|
| `batches` | cores less one, at least 1 | batches whose records are validated | `services/storage/opened_node.py` |
| `lookups` | 1 | lookups by timestamp that walk over records | the same |
| `recovery` | `recovery_processes`; 0: one a core | large logs after a crash | the same |
| `cleaner` | `log.cleaner.threads` | compaction | `services/storage/cleanup/background_tasks.py` |

`libs/runtime/children.py` runs the children. A thread waits for the end of each that is killed. gRPC, for etcd, has threads of
its own.
"""

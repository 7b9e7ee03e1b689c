"""What removes or rewrites old records: retention, compaction, DeleteRecords, and the tasks that run them. It imports `logs`,
`disks` and `partition`."""

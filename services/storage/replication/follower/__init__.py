"""The follower's side: replica fetchers, applying what they bring, truncation, log starts. It imports `logs`, `disks`,
`partition` and `core`."""

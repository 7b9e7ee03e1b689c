"""The segmented log of one partition, synchronous and without asyncio. Its rooms, from high to low: `inspection`,
`partition_log`, `opening`, `cleaner`, `segments`, `producers`, `checkpoints`, `files`, `model`."""

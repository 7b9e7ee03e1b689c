"""The elected writer of cluster metadata (docs/architecture.md). Its rooms import in the order that pyproject.toml declares."""

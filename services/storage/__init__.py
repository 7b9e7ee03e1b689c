"""The storage node (docs/architecture.md). Its rooms import in the order that pyproject.toml declares."""

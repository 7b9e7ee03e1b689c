"""The only service that clients talk to (docs/architecture.md). Its rooms import in the order that pyproject.toml declares."""

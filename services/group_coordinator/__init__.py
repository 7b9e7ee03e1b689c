"""The owner of groups and committed offsets (docs/groups.md). Its rooms import in the order that pyproject.toml declares."""

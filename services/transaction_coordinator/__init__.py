"""The transaction coordinator: what it knows of each transactional id. Nothing serves it yet (docs/roadmap.md, issue 16)."""

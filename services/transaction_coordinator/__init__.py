"""The transaction coordinator: transactional ids and their transactions, as docs/transactions.md explains."""

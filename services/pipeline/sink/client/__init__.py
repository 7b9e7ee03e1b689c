"""A blocking client of the Kafka protocol: what one task needs to write a transaction and to read the ledger. It may import
`libs.client` and `libs.wire` only."""

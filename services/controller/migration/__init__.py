"""Commands that take a stopped Kafka's log directories over, and that give a stopped cluster's to Kafka. It imports `core` and
`recovery`."""

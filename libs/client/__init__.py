"""A blocking client of the Kafka protocol, for programs that ask little and wait. It imports `libs/wire`."""

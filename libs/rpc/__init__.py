"""Streams, and msgpack RPC between services over them. Its rooms, from high to low: `client` and `server`, `messages`,
`transport`, `files`. `contracts` says what each service is asked, and imports none of them."""

"""The bytes of a call: its frame, contracts to arrays and back, and the errors of both sides. Pure: it imports only types from
`transport`."""

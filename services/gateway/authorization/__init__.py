"""Authorization: the table of what each API's requests need, and the answers to requests that are denied in whole or in part. It
imports `exchange` and `core`."""

"""Requests of gateways and storage nodes that change metadata: topics, configs, ISRs, registrations. It imports `term` and
`core`."""

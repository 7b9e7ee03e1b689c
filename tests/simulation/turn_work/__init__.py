"""The work of one turn of an event loop, counted, while state that clients make grows. It imports services, and the stages of
their tests."""

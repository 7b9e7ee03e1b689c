"""The controller's decisions as pure functions of an image: no I/O, no clock, no randomness that is not passed in."""

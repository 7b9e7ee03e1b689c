"""One module for each idea of what may not be. Every check is a function of the evidence, in linear time."""

"""Groups that change between the classic and the consumer protocol, and those with members of both. Pure."""

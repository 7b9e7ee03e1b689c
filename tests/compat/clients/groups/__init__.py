"""Groups as their clients live them: members are processes of their own, so that they can be killed."""

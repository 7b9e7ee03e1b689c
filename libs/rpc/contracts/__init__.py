"""The RPC methods and their messages, as frozen dataclasses, one module per subject: the methods of a storage node stand in five.
They import nothing of the other rooms of RPC."""

"""The distribution: the import package `penstock`, which users import, and how `libs` and `services` are put inside of it."""

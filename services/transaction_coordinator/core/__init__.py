"""The decisions of the transaction coordinator, without I/O. Imports `libs.coordinator` and `libs.wire` only."""

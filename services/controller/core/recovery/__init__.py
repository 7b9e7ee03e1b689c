"""What a metadata store is filled with after it was lost: from a backup, or from what the storage nodes hold. Pure."""

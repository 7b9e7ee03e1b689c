"""The rules of the append path: admission, ownership of internal topics, produces that wait. It imports nothing of storage."""

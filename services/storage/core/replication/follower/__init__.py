"""The rules of a follower: what it pulls, and how it takes the answers of its leader. It imports nothing of storage."""

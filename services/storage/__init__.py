"""The storage node: owns the partition logs on its disks, leads them, appends to them and serves reads from them."""

"""What requests without a task of their own work with: the newest routes, storage nodes, appends, files. It imports `produce`
and `peers`."""

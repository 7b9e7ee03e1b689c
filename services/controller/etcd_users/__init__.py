"""The set-up of etcd's users and roles. It imports no other room of the controller."""

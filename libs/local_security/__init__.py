"""What a protected cluster of one machine is made of: an authority, the certificate of its gateways, a first user, and files
for clients. `make up SECURITY=on` and `penstock dev --security` have it in one folder. It imports nothing of ours."""

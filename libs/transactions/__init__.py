"""What takes part in transactions, at the leaders of partitions and at group coordinators: questions to transaction coordinators,
what their answers mean for clients, and markers that come late (KIP-890)."""

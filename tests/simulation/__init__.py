"""The log on a simulated disk: cut the power at every operation boundary, open it again, and see what is left."""

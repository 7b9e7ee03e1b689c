"""What jobs need of Spark itself: the session, the pinned packages, and the options of the Kafka connector."""

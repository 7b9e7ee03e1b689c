"""Images and clusters of containers. What these tests share ends with them: it would cost a third of a core until pytest ends."""

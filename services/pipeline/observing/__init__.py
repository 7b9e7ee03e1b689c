"""What others see of a running stream: its offsets in a Kafka group, metrics, spans, and its status.

`progress.py` composes the room. It may import `transforms` and `spark`.
"""

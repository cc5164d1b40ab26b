"""Real Kafka brokers as processes of this machine, for tests and the demo."""

"""What a training step and every kernel cost, beside what the machine could do at best."""

"""What a training step and every kernel cost, compared with the best that the machine could do."""

"""How long a training step and every kernel take, compared with the best that the machine could do."""

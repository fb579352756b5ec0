"""What keeps a check honest: inputs that cannot be written to, buffers with guard bands, no way around the exercise."""

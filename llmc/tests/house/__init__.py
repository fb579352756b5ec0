"""The rules of the house, the environment, a real browser."""

"""What the notebooks use, and the references of the lessons."""

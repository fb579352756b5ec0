"""What a launch was found to do: its records, every kind of problem, and the sentences about them."""

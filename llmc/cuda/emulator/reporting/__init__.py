"""The Report of a launch: its problems in words, its costs in tables and pictures."""

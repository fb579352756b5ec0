"""From what a launch left behind to sentences, tables and pictures."""

"""The corpora: how each is made, chosen and found."""

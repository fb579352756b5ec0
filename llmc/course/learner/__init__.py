"""What a learner calls in a cell: the progress board, hints, the glossary."""

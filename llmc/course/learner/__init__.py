"""What a learner asks for: the progress board, hints, the glossary."""

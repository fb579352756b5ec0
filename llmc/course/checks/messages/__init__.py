"""What a check says of a wrong answer: values first, words at the end."""

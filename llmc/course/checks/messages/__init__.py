"""What a check says about a wrong answer: values first, words at the end."""

"""Small changes of right code: what the checks must refuse, and what they recognise in a learner's numbers."""

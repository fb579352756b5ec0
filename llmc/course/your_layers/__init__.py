"""GPT-2 trained with the learner's own functions: `learner_backend(globals())`."""

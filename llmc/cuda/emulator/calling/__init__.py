"""From the arguments that a learner passes to the bytes that a kernel is called with."""

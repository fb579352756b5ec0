"""From what a learner hands to a kernel to what the kernel is called with."""

"""Running a kernel's library: arguments into the arena, the runtime's workers, what they found into a `Raw`."""

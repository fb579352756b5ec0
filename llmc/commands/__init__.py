"""The command line, one file a command: `add_arguments(parser)` declares what it takes, `run(args)` does it."""

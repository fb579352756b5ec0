"""The command line, with one file per command: `add_arguments(parser)` declares its arguments, `run(args)` runs it."""

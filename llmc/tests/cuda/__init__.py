"""Tests of llmc.cuda: which device is used, and what a GPU does; the emulator has a room of its own."""

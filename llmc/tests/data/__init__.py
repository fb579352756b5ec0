"""Corpora, tokenizers, token files, loaders."""

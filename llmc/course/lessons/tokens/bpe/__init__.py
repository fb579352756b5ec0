"""Lesson 08, byte-pair encoding: right versions (step, encode, decode), known mistakes, and what the checks say."""

from llmc.course.lessons.tokens.bpe.decode import (
    DECODE_TOKENS,
    decode,
    decode_cases,
    decode_mistakes,
    explain_decodings,
)
from llmc.course.lessons.tokens.bpe.encode import (
    encode_cases,
    encode_mistakes,
    encode_word,
    explain_encodings,
    keys_told,
    sweep,
    train,
)
from llmc.course.lessons.tokens.bpe.gpt2 import gpt2_encoding
from llmc.course.lessons.tokens.bpe.step import bpe_step, count_pairs, merge, most_frequent
from llmc.course.lessons.tokens.bpe.step_check import explain_steps, step_cases
from llmc.course.lessons.tokens.bpe.step_mistakes import step_mistakes
from llmc.course.lessons.tokens.bpe.telling import BYTES, call_all

__all__ = [
    "BYTES",
    "DECODE_TOKENS",
    "bpe_step",
    "call_all",
    "count_pairs",
    "decode",
    "decode_cases",
    "decode_mistakes",
    "encode_cases",
    "encode_mistakes",
    "encode_word",
    "explain_decodings",
    "explain_encodings",
    "explain_steps",
    "gpt2_encoding",
    "keys_told",
    "merge",
    "most_frequent",
    "step_cases",
    "step_mistakes",
    "sweep",
    "train",
]

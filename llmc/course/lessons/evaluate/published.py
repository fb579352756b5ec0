"""Lesson 24: what others have measured and written down, each number with its source.

HellaSwag's are in llmc/hellaswag/published.py.
"""

from collections import namedtuple

from llmc.config import GPT2Config, preset

# A model and how it was trained. tokens: in all · batch: tokens in a step · T: their context
Size = namedtuple("Size", "config tokens batch T")


def _gpt3(L, C, NH):
    return Size(GPT2Config(maxT=2048, L=L, C=C, NH=NH), 300e9, 524_288, 2048)


# Tokens of GPT-2: those of llm.c's scripts/run_gpt2_*.sh. GPT-3: Brown et al. 2020, table 2.1, and 300 billion tokens;
# the batch is llm.c's (scripts/run_gpt3_125M.sh). Its 13B has 5140 channels in the table, no multiple of 40 heads.
SIZES = {
    "GPT-2 124M": Size(preset("d12"), 18_865 * 524_288, 524_288, 1024),
    "GPT-2 350M": Size(preset("d24"), 60_000 * 524_288, 524_288, 1024),
    "GPT-2 774M": Size(preset("d36"), 286_102 * 524_288, 524_288, 1024),
    "GPT-2 1558M": Size(preset("d48"), 32_000 * 1_048_576, 1_048_576, 1024),
    "GPT-3 125M": _gpt3(12, 768, 12),
    "GPT-3 350M": _gpt3(24, 1024, 16),
    "GPT-3 760M": _gpt3(24, 1536, 16),
    "GPT-3 1.3B": _gpt3(24, 2048, 16),
    "GPT-3 2.7B": _gpt3(32, 2560, 32),
    "GPT-3 6.7B": _gpt3(32, 4096, 32),
    "GPT-3 13B": _gpt3(40, 5120, 40),
    "GPT-3 175B": _gpt3(96, 12288, 96),
}


def chinchilla(N, D):
    """Loss (nats per token) of N weights after D tokens: Hoffmann et al. 2022, refitted by Besiroglu et al. 2024."""
    return 1.8172 + 482.01 / N**0.3478 + 2085.43 / D**0.3658

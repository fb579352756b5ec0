"""A model's accuracy on HellaSwag, as text, next to the accuracy of other models on the validation set.

GPT-2: OpenAI's weights, length-normalised, scored by llm.c's `dev/data/hellaswag.py` (its `vislog.ipynb` draws them as
baselines). GPT-3: the zero-shot accuracies in its paper (Brown et al. 2020, table H.1).
"""

CHANCE = 0.25
PUBLISHED = {  # model -> accuracy, length-normalised
    "GPT-2 124M": 0.294463,
    "GPT-2 350M": 0.375224,
    "GPT-2 774M": 0.431986,
    "GPT-2 1558M": 0.488946,
    "GPT-3 125M": 0.337,
    "GPT-3 350M": 0.436,
    "GPT-3 760M": 0.510,
    "GPT-3 1.3B": 0.547,
}


def report(scores) -> str:
    """A few lines of text about a model's Scores."""
    lines = [
        f"HellaSwag     {scores.accuracy_norm:8.2%} ± {scores.standard_error:.2%} of {len(scores.labels):,} examples,"
        " by the mean cost per token",
        f"              {scores.accuracy:8.2%}  by the whole cost of an ending",
        "the whole validation set, by the mean cost per token:",
        *(f"  {name:<12}{accuracy:8.2%}" for name, accuracy in {"a guess": CHANCE, **PUBLISHED}.items()),
    ]
    if scores.cut:
        lines.append(f"{scores.cut:,} examples were longer than the model can read, and were cut short.")
    return "\n".join(lines)

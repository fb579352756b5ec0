"""Lesson 10, the instruments: what z-scores should be, and what each known mistake gives instead.

Mistakes are {sentence after "z equals ": (array, where to look)}.
"""

import numpy as np

# where to look; a test compares this title with the headings of notebooks/10_training_loop.ipynb
INSTRUMENTS = 'lesson 10, section "8.1 · Three instruments"'


def z_scores(values, window):
    """(n,) of each value among the `window` values that end with it; NaN if there are fewer, 0 if all are equal."""
    z = np.full(len(values), np.nan)  # (n,)
    for i in range(window - 1, len(values)):
        recent = [float(v) for v in values[i - window + 1 : i + 1]]
        middle = sum(recent) / window
        spread = (sum((v - middle) ** 2 for v in recent) / window) ** 0.5
        z[i] = (recent[-1] - middle) / spread if spread > 0 else 0.0
    return z


def z_mistakes(values, window) -> dict:
    """Known wrong z-scores (n - window + 1,), where the window is full. No window of these values may be constant."""
    v, w = np.asarray(values, np.float64), window
    full = np.lib.stride_tricks.sliding_window_view(v, w)  # (n - w + 1, w)
    last, mean, std = full[:, -1], full.mean(axis=1), full.std(axis=1)  # (n - w + 1,) each
    past = [v[: w + k] for k in range(len(full))]  # everything so far
    before = [v[max(0, k - 1) : w + k - 1] for k in range(len(full))]  # one value earlier
    longer = [v[max(0, k - 1) : w + k] for k in range(len(full))]  # one value more
    median = np.median(full, axis=1)  # (n - w + 1,)
    later = "z changes with later values: the window ends with the value itself"
    places = np.arange(w - 1, len(v))  # (n - w + 1,)   of the newest value
    own = np.sqrt(_moving_mean((v - _moving_mean(v, w)) ** 2, w))[w - 1 :]  # (n - w + 1,)
    wrong = {
        f"the reference with the value in the middle of its window, so {later}": _z(
            last, [v[i - w // 2 : i - w // 2 + w] for i in places]
        ),
        f"the reference with the value in the middle of a window of {w // 2 * 2 + 1}, so {later}": _z(
            last, [v[i - w // 2 : i + w // 2 + 1] for i in places]
        ),
        f"the reference with a window that begins with the value, so {later}": _z(last, [v[i : i + w] for i in places]),
        "the reference with n - 1 in the variance (ddof=1): divide by n": (last - mean) / full.std(axis=1, ddof=1),
        "the reference with the window BEFORE the value: it ends with the value itself": _z(last, before),
        "the reference with the window BEFORE the value, and 0 where that is not full: it ends with the value itself": (
            _z(last, before) * (np.arange(len(full)) > 0)
        ),
        "the reference with a window that is one value too long: it has `window` values, the newest among them": _z(
            last, longer
        ),
        "the reference with a window that is one value too short: it has `window` values, the newest among them": _z(
            last, [v[k + 1 : w + k] for k in range(len(full))]
        ),
        "the reference over all values so far: take only the last `window` of them": _z(last, past),
        "the reference over all values, even later ones": (last - v.mean()) / v.std(),
        "the distance from the mean: divide it by the standard deviation": last - mean,
        "the reference divided by the variance: take its root": (last - mean) / std**2,
        "the reference without its sign: a low value has a negative z-score": np.abs(last - mean) / std,
        "the value divided by the standard deviation: subtract the mean first": last / std,
        "the z-score of the window's first value: take the newest": (full[:, 0] - mean) / std,
        **_with_a_small_number(last - mean, std),
        "the reference with the median instead of the mean": (last - median) / std,
        "the reference divided by the mean absolute distance: divide by the root of the mean square": (last - mean)
        / np.abs(full - mean[:, None]).mean(axis=1),
        "the wrong sign: a value above the mean has a positive z-score": (mean - last) / std,
        "the reference with a standard deviation of other distances, each value's from its own moving mean: take those"
        " of all values of a window from the mean of this window": (last - mean) / own,
    }
    return {sentence: (array, INSTRUMENTS) for sentence, array in wrong.items()}


def _with_a_small_number(distance, std) -> dict:
    """z-scores (n - window + 1,) of somebody who keeps 0 / 0 away with a small number: it is not beside tiny values."""
    wrong, instead = {}, "divide by the standard deviation alone, and give 0 where it is 0"
    for number in (float(f"1e-{k}") for k in range(5, 17)):
        spreads = {
            f"{number:g} added to the standard deviation": std + number,
            f"{number:g} added to the variance": np.sqrt(std**2 + number),
            f"a standard deviation of at least {number:g}": np.maximum(std, number),
        }
        wrong |= {f"the reference with {words}: {instead}": distance / spread for words, spread in spreads.items()}
    right = distance / std
    return {words: z for words, z in wrong.items() if np.abs(z - right).max() > 1e-7 * np.abs(right).max()}


def _moving_mean(v, window):
    """(n,) mean of up to `window` values that end with each one: of fewer at the beginning."""
    return np.array([v[max(0, i - window + 1) : i + 1].mean() for i in range(len(v))])


def _z(last, windows):
    """(n,) z-scores of last (n,) among windows, a list of n arrays."""
    mean, std = np.array([w.mean() for w in windows]), np.array([max(w.std(), 1e-30) for w in windows])  # (n,) each
    return (last - mean) / std


def wrong_start(got, values, window):
    """What is wrong with the NaN at the beginning of got, as a sentence; None when nothing is."""
    if not isinstance(got, np.ndarray) or got.shape != (len(values),):
        return None  # `compare` says it better
    filled = np.flatnonzero(~np.isnan(got))
    first = int(filled[0]) if filled.size else len(got)
    if first == window - 1 or (filled.size == 0 and len(got) < window):
        return None
    if first == len(got):
        return f"all z-scores are NaN; from value {window - 1} on (counted from 0) they should be numbers"
    return (
        f"the first z-score that is a number belongs to value {first} (counted from 0); with a window of {window}"
        f" it should belong to value {window - 1}, the first with {window} values up to and including itself;"
        " those before it are NaN"
    )


def wrong_far_from_0(z, after_others) -> str:
    """What is wrong with the z-scores (6,) of windows far from 0, of equal values but for the last; after others?"""
    lost = "a mean square minus a squared mean has no right digits there: cancellation, the trap of lesson 01"
    far = "far from 0, and from the values before them" if after_others else "far from 0"
    return f"{far}, z is {z}, and the last of them should be 2, the others 0; {lost}"


def taken_for_flat(got, values, window) -> str | None:
    """What is wrong with z-scores that are 0 where a window is not flat: which of its values are equal; else None."""
    for i in range(window - 1, len(values)):
        recent, z = values[i - window + 1 : i + 1], z_scores(values, window)[i]
        if got[i] == 0 and abs(z) > 1e-6:
            shown = ", ".join(f"{value:.3g}" for value in recent)
            return f"z is 0 for the window [{shown}], expected {z:.3g}: it is 0 only where ALL of a window is equal"
    return None

"""Which kernel of a library's is taken, without a GPU: its clock and its stream are imitated."""

import json

import numpy as np
import pytest

from llmc.kernels import fastest

LARGE = 2e9  # FLOPs


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The file where choices are kept; what a launch returns is how long it takes."""
    file = tmp_path / "products.json"
    monkeypatch.setattr(fastest, "_file", lambda: file)
    monkeypatch.setattr(fastest, "_is_recorded", lambda: False)
    monkeypatch.setattr(fastest, "_time", lambda work, launches=1: [work() for _ in range(launches)][-1])
    monkeypatch.setattr(fastest, "_taken", {})
    fastest._known.cache_clear()
    yield file
    fastest._known.cache_clear()


def taken(alone, hot=None, key="a product", flops=LARGE, kept=None):
    """(which choice is launched in the end, which were launched before, in this order, each once).

    alone: milliseconds of each choice · hot: the same once all of them have been launched three times, if it differs.
    """
    launched = []

    def run(choice):
        launched.append(choice)
        return (alone if hot is None or len(launched) <= 3 * len(alone) else hot)[choice]

    fastest.launch(range(len(alone)), key, flops, run, kept)
    return launched[-1], list(dict.fromkeys(launched[:-1]))


def test_the_fastest_is_measured_once_and_kept(place):
    assert taken([3.0, 2.0, 2.5]) == (1, [0, 1, 2]) and taken([3.0, 2.0, 2.5]) == (1, [])
    assert json.loads(place.read_text()) == {"a product": 1}
    fastest._taken.clear()  # another process, on which the GPU is slow for a moment
    fastest._known.cache_clear()
    assert taken([3.0, 9.0, 2.5]) == (1, [])
    assert taken([3.0, 2.0], key="another") == (1, [0, 1])
    assert json.loads(place.read_text()) == {"a product": 1, "another": 1}


def test_the_fastest_under_load_counts(place):
    assert taken([3.0, 2.0, 2.2], hot=[4.0, 3.5, 3.2])[0] == 2
    assert taken([3.0, 2.0, 9.0], hot=[4.0, 3.5, 0.1], key="slow alone")[0] == 1  # that was never tried under load


def test_a_small_gain_may_be_noise(place):
    assert taken([3.0, 2.98]) == (0, [0, 1])


def test_small_products_and_single_proposals_take_the_first(place):
    assert taken([3.0, 2.0], flops=1e6) == (0, []) and taken([3.0]) == (0, []) and not place.exists()


def test_nothing_is_timed_while_launches_are_recorded(place, monkeypatch):
    monkeypatch.setattr(fastest, "_is_recorded", lambda: True)
    assert taken([3.0, 2.0]) == (0, []) and not place.exists()
    monkeypatch.setattr(fastest, "_is_recorded", lambda: False)
    assert taken([3.0, 2.0]) == (1, [0, 1])


@pytest.mark.parametrize("text", ["", "[1]", '{"a product": 7}', '{"a product": -1}', '{"a product": "1"}', "\0"])
def test_a_file_that_says_nothing_useful_is_made_anew(place, text):
    place.write_text(text)
    assert taken([3.0, 2.0]) == (1, [0, 1]) and json.loads(place.read_text()) == {"a product": 1}


def test_without_a_place_for_the_file_each_process_measures(place, monkeypatch):
    monkeypatch.setattr(fastest, "_file", lambda: None)
    assert taken([3.0, 2.0]) == (1, [0, 1]) and taken([3.0, 2.0]) == (1, [])


def test_what_is_added_to_is_put_back(place, monkeypatch):
    class There(np.ndarray):
        """As CuPy has it."""

        def get(self):
            return np.array(self)

        def set(self, numbers):
            self[...] = numbers

    gradient = np.full(4, 5.0, np.float32).view(There)

    def run(choice):
        gradient[...] += 1.0
        return [3.0, 2.0][choice]

    fastest.launch(range(2), "a sum", LARGE, run, gradient)
    np.testing.assert_array_equal(gradient, 6.0)

import pytest

from llmc.config import PRESETS, GPT2Config, preset
from llmc.errors import UserError

PUBLISHED = {
    "d6": (30_339_456, 30_357_504),
    "d12": (124_439_808, 124_475_904),
    "gpt2": (124_439_808, 124_475_904),
    "gpt2-medium": (354_823_168, 354_871_296),
    "gpt2-large": (774_030_080, 774_090_240),
    "gpt2-xl": (1_557_611_200, 1_557_686_400),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_are_the_published_ones(name):
    config = preset(name)
    assert (config.num_parameters, config.num_parameters_padded) == PUBLISHED[name]


def test_vocabulary_is_padded_to_a_multiple_of_128():
    assert [GPT2Config(V=V).Vp for V in (1, 128, 129, 50257)] == [128, 128, 256, 50304]


def test_parameter_table_is_in_file_order_and_decays_matrices_only():
    table = preset("gpt2").parameter_table()
    assert [p.name for p in table][:6] == ["wte", "wpe", "ln1w", "ln1b", "qkvw", "qkvb"]
    assert len(table) == 16
    assert {p.name for p in table if p.decayed} == {"wte", "wpe", "qkvw", "attprojw", "fcw", "fcprojw"}
    assert [p.name for p in table if not p.stacked] == ["wte", "wpe", "lnfw", "lnfb"]
    assert all((p.shape[0] == 12) == p.stacked for p in table)


def test_flops_per_token_counts_as_llmc_does():
    config = preset("gpt2")
    assert config.flops_per_token(1024) == 6 * 124_475_904 + 6 * 12 * 768 * 1024


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (dict(C=10, NH=3), "C=10 channels cannot be split evenly among NH=3 heads"),
        (dict(L=0), "L must be a positive whole number, not 0"),
        (dict(V=-5), "V must be a positive"),
        (dict(maxT=1.5), "maxT must be a positive"),
        (dict(C="768"), "C must be a positive"),
        (dict(NH=True), "NH must be a positive"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_one_sentence(sizes, words):
    with pytest.raises(ValueError, match=words) as caught:
        GPT2Config(**sizes)
    assert "\n" not in str(caught.value)


def test_unknown_preset_names_the_known_ones():
    with pytest.raises(UserError, match="no preset 'gpt3'.*d12.*gpt2-xl"):
        preset("gpt3")


def test_preset_can_be_changed_without_touching_the_original():
    assert preset("tiny", V=300).V == 300
    assert PRESETS["tiny"].V != 300


def test_sequence_length_is_checked():
    config = preset("tiny")
    config.check_sequence_length(config.maxT)
    for T in (0, config.maxT + 1):
        with pytest.raises(UserError, match=f"T={T} must be between 1 and this model's maxT"):
            config.check_sequence_length(T)

"""Lesson 05: what softmax, cross-entropy and the classifier should give, and what known mistakes give instead."""

from llmc.course.lessons.softmax_crossentropy.buffers import (  # noqa: F401
    all_cleared,
    classifier_mistakes,
    no_padding,
    untouched,
    untouched_mistakes,
)
from llmc.course.lessons.softmax_crossentropy.losses import (  # noqa: F401
    clipped,
    cross_entropy_mistakes,
    fresh_loss_mistakes,
    infinite_loss,
    overflow,
)
from llmc.course.lessons.softmax_crossentropy.places import (  # noqa: F401
    FRESH,
    IN_PLACE,
    LOSS,
    LSE,
    MAXIMUM,
    PADDING,
    PRODUCT,
    SOFTMAX,
)
from llmc.course.lessons.softmax_crossentropy.probabilities import (  # noqa: F401
    softmax_backward_mistakes,
    softmax_mistakes,
    softmax_overflow,
)
from llmc.course.lessons.softmax_crossentropy.references import (  # noqa: F401
    Classified,
    classifier,
    cross_entropy,
    fresh_loss,
    one_far_above,
    one_hot,
    softmax,
    softmax_backward,
    targets,
)
from llmc.course.lessons.softmax_crossentropy.small_numbers import (  # noqa: F401
    SAFE_LOG,
    SAFE_LSE,
    SAFE_SUM,
    safe_log,
    safe_lse,
    safe_sum,
)
from llmc.course.old.checks.held import no_more_than  # noqa: F401, for the check, as all here

from llmc.course.checks.messages.diagnosis import *  # noqa
from llmc.course.checks.messages.diagnosis import (
    Diagnosis,
    Kind,
    WrongAnswer,
    describe,
    describe_result,
    listed,
    stopped,
    arrays_in,
)  # noqa

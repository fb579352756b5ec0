from llmc.course.checks.messages.diagnosis import *  # noqa

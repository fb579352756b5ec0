from llmc.course.checks.search import ALL, PythonSearch  # noqa

import argparse
import json

import pytest

from llmc import bench


def test_bench_prints_one_json_object_that_adds_up(capsys):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    words = ["--batch-size", "1", "--sequence-length", "8", "--steps", "3", "--json"]
    assert bench.run(parser.parse_args(words)) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["tokens_per_s"] * result["ms_per_step"] / 1e3 == pytest.approx(result["B"] * result["T"])
    assert 0 < result["share_of_sgemm"] < 1
    assert result["share_of_sgemm"] == pytest.approx(result["gflops"] / result["sgemm_gflops"])

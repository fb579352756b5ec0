"""environment.yml (conda) and pyproject.toml (pip) list the same packages with the same minimum versions."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[3]
PIP_TO_CONDA = {"matplotlib": "matplotlib-base", "cupy-cuda12x": "cupy", "cupy-cuda13x": "cupy"}
REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[\w,-]+\])? *>=([\w.]+)")


def minima(requirements):
    """["numpy>=2.1", "cupy-cuda12x[ctk]>=14"] -> {"numpy": "2.1", "cupy": "14"}, under conda's names."""
    found = {}
    for requirement in requirements:
        match = REQUIREMENT.fullmatch(requirement)
        assert match, f"{requirement!r} is not of the form name>=version"
        name = match[1].lower()
        found[PIP_TO_CONDA.get(name, name)] = match[2]
    return found


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def environment_text():
    return (ROOT / "environment.yml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def environment(environment_text):
    return yaml.safe_load(environment_text)


def test_same_packages_and_minimum_versions(project, environment):
    conda = minima(line for line in environment["dependencies"] if isinstance(line, str) and line != "pip")
    nbval = minima(line for line in project["optional-dependencies"]["test"] if line.startswith("nbval"))
    python = {"python": project["requires-python"].removeprefix(">=")}
    assert conda == {**python, **minima(project["dependencies"]), **nbval}


@pytest.mark.parametrize("extra", ["cuda12", "cuda13"])
def test_the_commented_gpu_lines_are_the_gpu_extras(project, environment_text, extra):
    commented = re.findall(r"^ +# - (.+)$", environment_text, flags=re.MULTILINE)
    assert minima(commented) == minima(project["optional-dependencies"][extra])


def test_conda_forge_and_this_package(environment):
    assert environment["name"] == "llmc"
    assert environment["channels"] == ["conda-forge"]
    assert environment["dependencies"][-1] == {"pip": ["-e ."]}
    assert "pip" in environment["dependencies"], "conda warns when pip packages are listed without pip itself"


@pytest.mark.parametrize("python", ["3.11.9", "3.12.9", "3.13.9"])
@pytest.mark.parametrize("system", ["linux x86_64 posix", "darwin arm64 posix", "win32 AMD64 nt"])
def test_the_versions_that_ci_installs_are_in_the_ranges(project, python, system):
    """.ci/constraints.txt holds one version of each package that pyproject.toml asks for in this environment."""
    platform, machine, os_name = system.split()
    where = {"python_full_version": python, "python_version": python[:4], "sys_platform": platform}
    where |= {"platform_machine": machine, "os_name": os_name}

    def there(lines):
        found = [Requirement(line) for line in lines if not line.startswith("#")]
        return [each for each in found if each.marker is None or each.marker.evaluate(where)]

    extras = [line for name in ("test", "docs", "bf16") for line in project["optional-dependencies"][name]]
    pins = there((ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines())
    versions = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in pins}
    assert len(versions) == len(pins)
    for asked in there([*project["dependencies"], *extras]):
        assert versions[canonicalize_name(asked.name)] in asked.specifier, asked


@pytest.mark.parametrize("page", [".ci/run", ".github/workflows/ci.yml", "docs/install.md"])
def test_ci_and_the_installation_name_these_versions(page):
    assert ".ci/constraints.txt" in (ROOT / page).read_text(encoding="utf-8")


def test_uv_knows_which_extras_exclude_each_other(project):
    """Both CuPy wheels claim the same files, and PyTorch brings CUDA 13; without this `uv sync` finds no solution."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    conflicts = [{extra["extra"] for extra in pair} for pair in tomllib.loads(text)["tool"]["uv"]["conflicts"]]
    assert {"cuda12", "cuda13"} in conflicts and {"cuda12", "test"} in conflicts
    assert set().union(*conflicts) <= project["optional-dependencies"].keys()


def test_our_name_on_pypi_is_not_somebody_elses(project):
    assert project["name"] == "llmc-course" and project["scripts"] == {"llmc": "llmc.__main__:main"}


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("target", ["lab", "train", "test", "install"])
def test_a_checkout_that_was_moved_says_so(target, tmp_path):
    """Its environment holds the old path: no target runs in it, or installs into it."""
    if not (ROOT / "Makefile").is_file():
        pytest.skip("needs a checkout")
    for name in (".llmc-course", ".llmc-tests"):
        (tmp_path / name).write_text("/the/old place\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if "MAKE" not in name}  # `make test` runs this too
    command = ["make", target, f"VENV={tmp_path}"]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 2 and "was made for /the/old place" in run.stderr and "make clean install" in run.stderr
    assert run.stdout == "" and len(list(tmp_path.iterdir())) == 2


def test_uncommented_gpu_lines_still_parse(environment_text):
    with_gpu = yaml.safe_load(re.sub(r"^( +)# - ", r"\1- ", environment_text, flags=re.MULTILINE))
    assert "cupy" in minima(line for line in with_gpu["dependencies"] if isinstance(line, str) and line != "pip")

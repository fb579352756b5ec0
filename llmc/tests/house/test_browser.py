"""JupyterLab in a real browser, on a copy of the course: stub, wrong and right answers, links: make test-browser.

Needs Playwright (pip install -e ".[browser]") and a Chromium: the system's, LLMC_CHROMIUM, or Playwright's own. Nothing
but this machine is talked to. LLMC_BROWSER_PICTURES names a folder for screenshots.
"""

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from llmc.course.exercises.catalog import all_exercises, cells_of
from llmc.course.exercises.own_folder import start
from llmc.course.learner.board import task_of

playwright = pytest.importorskip("playwright.sync_api", reason='needs Playwright: pip install -e ".[browser]"')
ROOT = Path(__file__).resolve().parents[3]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (ROOT / "solutions").is_dir(), reason="needs a checkout: the exercises lie in it"),
]

EXERCISES = all_exercises()
NEXT = next((exercise for exercise in EXERCISES if exercise.name == "encoder_backward"), None)
PATIENCE = 120  # seconds; a busy machine with two cores starts a kernel in ten
QUIET = "--disable-gpu --disable-background-networking --disable-component-update --disable-sync --no-first-run".split()
SETTINGS = {  # no question about news, no toast, and every cell in the page (the default of 4.6)
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "notebook-extension/tracker": {"windowingMode": "contentVisibility"},
}
BROKEN = """def layernorm_forward(x, w, b, eps=1e-5):
    mean = x.mean(axis=-1)
    centred = x - mean[..., None]
    rstd = 1 / np.sqrt((centred**2).mean(axis=-1) + eps)
    out = centred * rstd[..., None] * w + b
    {mistake}
    return out, mean, rstd
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A learner's copy, with some exercises done: lesson 00, 01 except for the first, and the first two of 02."""
    folder = tmp_path_factory.mktemp("browser") / "mine"
    start(folder, ROOT)
    names = [exercise.name for exercise in EXERCISES[: EXERCISES.index(NEXT)] if exercise.name != "layernorm_forward"]
    times = {name: f"2025-01-31T12:00:{second:02}+00:00" for second, name in enumerate(names)}
    state = {"version": 1, "done": times}
    (folder.parent / "progress.json").write_text(json.dumps(state), encoding="utf-8")
    return folder


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture(scope="module")
def lab(folder):
    """The address of a JupyterLab of its own, with settings, kernels and progress kept away from the user's."""
    home, port, token = folder.parent, free_port(), secrets.token_hex(16)
    for name, settings in SETTINGS.items():
        path = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings), encoding="utf-8")
    names = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime"}
    names |= {"IPYTHONDIR": "ipython", "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "spaces"}
    own = {name: str(home / where) for name, where in names.items()}
    own |= {"LLMC_PROGRESS": str(home / "progress.json"), "PYTHONPATH": str(ROOT)}
    ours = ("MPLBACKEND", "PYTEST_CURRENT_TEST", "PYTEST_VERSION")  # with which a message is plain text
    environment = {name: value for name, value in os.environ.items() if name not in ours} | own
    options = [
        "--no-browser",
        "--allow-root",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={folder}",
        f"--IdentityProvider.token={token}",
        "--LabApp.extension_manager=readonly",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    with open(home / "lab.log", "wb") as log:
        command = [sys.executable, "-m", "jupyterlab", *options]
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        wait_for(f"http://127.0.0.1:{port}/api", server, home / "lab.log")
        yield lambda path: f"http://127.0.0.1:{port}/lab/tree/{path}?token={token}"
    finally:
        stop(server)


def wait_for(address, server, log):
    """Until the server answers; its own words when it ends instead."""
    deadline = time.monotonic() + PATIENCE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline and server.poll() is None:
        try:
            return opener.open(address, timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text(encoding='utf-8', errors='replace')[-3000:]}")


def stop(server):
    """End the server, and with it its kernels."""
    server.send_signal(signal.SIGTERM)  # on Windows this ends it at once
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


@pytest.fixture(scope="module")
def page():
    """A page that reaches this machine only."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    path = os.environ.get("LLMC_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    flags = [*QUIET, "--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else QUIET
    with playwright.sync_playwright() as library:
        try:
            browser = library.chromium.launch(executable_path=path, args=flags)
        except playwright.Error as error:
            pytest.skip(f"no Chromium (python -m playwright install chromium): {str(error).splitlines()[0]}")
        page = browser.new_page(viewport={"width": 1300, "height": 1000})
        page.route(re.compile(r"^(?!\w+://127\.0\.0\.1[:/])(http|ws)"), lambda route: route.abort())
        page.set_default_timeout(PATIENCE * 1000)
        yield page
        browser.close()


class Notebook:
    """The notebook on the page, seen as a learner sees it."""

    def __init__(self, page, address):
        self.page = page
        page.goto(address)
        page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()

    def cell(self, words):
        """The code cell that holds these words."""
        return self.page.locator(".jp-NotebookPanel:visible .jp-CodeCell").filter(has_text=words).first

    def type(self, cell, text):
        """Replace what a cell holds."""
        cell.locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(text)

    def run(self, cell):
        """Shift+Enter, then wait until the kernel is done."""
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
        prompt = cell.locator(".jp-InputPrompt")
        playwright.expect(prompt).to_have_text(re.compile(r"\[\d+\]"), timeout=PATIENCE * 1000)

    def says(self, cell, words):
        """Wait for an output that holds these words."""
        shown = cell.locator(".jp-OutputArea-output").filter(has_text=words).first
        playwright.expect(shown).to_be_visible(timeout=PATIENCE * 1000)
        return shown

    def picture(self, cell, name):
        """Keep a screenshot where somebody asked for it."""
        folder = os.environ.get("LLMC_BROWSER_PICTURES")
        if folder:
            cell.scroll_into_view_if_needed()
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"))


@pytest.fixture(scope="module")
def notebook(lab, page):
    """Exercise 01, in a new kernel."""
    return Notebook(page, lab("exercises/exercise_01_layernorm.ipynb"))


@pytest.fixture(scope="module")
def set_up(notebook):
    """The first cell is run, and the progress board is below it."""
    setup = notebook.cell("import numpy as np")
    notebook.type(setup, setup.locator(".cm-content").inner_text() + "\n\nprogress()")
    notebook.run(setup)


def board(notebook):
    return notebook.says(notebook.cell("import numpy as np"), "exercises done")


def check_answer(notebook, mistake=None):
    """Type an answer, run it and the check below it; returns the check's cell."""
    answer, check = notebook.cell("def layernorm_forward("), notebook.cell('with check("layernorm_forward")')
    if mistake is not None:
        notebook.type(answer, BROKEN.format(mistake=mistake).rstrip())
    notebook.run(answer)
    notebook.run(check)
    return check


def test_in_a_new_kernel_a_check_says_what_to_run_first(notebook):
    check = notebook.cell('with check("layernorm_forward")')
    notebook.run(check)
    shown = notebook.says(check, "run the set-up cell at the top first")
    assert "Traceback" not in shown.inner_text() and "Error" not in shown.inner_text()
    notebook.picture(check, "0_new_kernel")


def test_stub_is_not_done_yet(notebook, set_up):
    check = check_answer(notebook)
    notebook.says(check, "not done yet: layernorm_forward")
    assert not check.locator(".jp-RenderedText[data-mime-type*='stderr']").count()
    assert "○ layernorm_forward" in board(notebook).inner_text()
    notebook.picture(check, "1_stub")


def test_wrong_answer_is_explained(notebook):
    check = check_answer(notebook, "rstd = rstd**2")
    shown = notebook.says(check, "in place of `np.sqrt(variance + eps)`")
    assert "Traceback" not in shown.inner_text() and "Where to look" in shown.inner_text()
    notebook.picture(check, "2_wrong")


def test_a_message_breaks_its_lines_between_words(notebook, page):
    """In a narrow window no word of it is cut, and its table keeps its rows."""
    check = notebook.cell('with check("layernorm_forward")')
    page.set_viewport_size({"width": 760, "height": 1000})
    shown = notebook.says(check, "Where to look").locator("div > div")
    assert shown.first.evaluate("e => [getComputedStyle(e).wordBreak, getComputedStyle(e).whiteSpace]") == [
        "normal",
        "pre-wrap",
    ]
    table = shown.filter(has_text="expected").last
    assert table.evaluate("e => getComputedStyle(e).whiteSpace") == "pre" and "index" in table.inner_text()
    notebook.picture(check, "2b_narrow")
    page.set_viewport_size({"width": 1300, "height": 1000})


def test_where_to_look_opens_the_section(notebook, page):
    check = notebook.cell('with check("layernorm_forward")')
    notebook.says(check, "Where to look").get_by_role("link", name="lesson 01, section").click()
    section = page.locator(".jp-MarkdownCell").filter(has=page.get_by_role("heading", name="2 · Forward"))
    # its first line may end just above the edge: JupyterLab scrolls before the formulas further up are typeset
    playwright.expect(section).to_be_in_viewport(timeout=PATIENCE * 1000)
    notebook.picture(section, "2c_section")
    page.get_by_role("tab", name="exercise_01_layernorm.ipynb").click()


def test_links_below_a_check(notebook, page):
    links = page.locator(".jp-MarkdownCell").filter(has_text="Next exercise").first
    links.get_by_role("link", name="2 · Backward").click()
    task = page.get_by_role("heading", name="2 · Backward")
    playwright.expect(task).to_be_in_viewport(timeout=15_000)
    links.get_by_role("link", name="layernorm_forward").click()
    solution = page.get_by_role("tab", name="solution_01_layernorm.ipynb")
    playwright.expect(solution).to_be_visible(timeout=PATIENCE * 1000)
    answer = page.locator(".jp-CodeCell:visible").filter(has_text="### BEGIN SOLUTION").first
    playwright.expect(answer).to_be_in_viewport(timeout=PATIENCE * 1000)
    notebook.picture(answer, "2d_solution")
    page.get_by_role("tab", name="exercise_01_layernorm.ipynb").click()


def test_where_it_is_wrong_is_drawn(notebook):
    check = check_answer(notebook, "out[:, 2] += 1")
    notebook.says(check, "out is wrong")
    squares = notebook.says(check, "Where out is wrong").locator("td")
    assert 0 < squares.filter(has_text="×").count() < squares.count()
    notebook.picture(check, "3_where")


def test_right_answer_is_noted_on_the_board(notebook):
    check = check_answer(notebook, "pass")
    notebook.says(check, re.compile(r"✓ layernorm_forward is right\. 5 of 5 exercises\s+of 01_layernorm\s+done"))
    shown = board(notebook)
    playwright.expect(shown).to_contain_text("✓ layernorm_forward", timeout=PATIENCE * 1000)  # drawn again by the check
    assert f"Resume here: {NEXT.name}" in shown.inner_text()
    assert "22_train_gpt2" in shown.inner_text() and " h " in shown.inner_text()
    notebook.picture(notebook.cell("import numpy as np"), "4_board")


def test_hint_and_resume_here(notebook, page):
    check = notebook.cell('with check("layernorm_forward")')
    notebook.type(check, 'hint("layernorm_backward")  # in place of the check')
    hint = notebook.cell("# in place of the check")
    notebook.run(hint)
    notebook.says(hint, "Hint 1: where to start")
    notebook.picture(hint, "5_hint")
    resume = board(notebook).get_by_role("link", name=f"Resume here: {NEXT.name}")
    resume.click()
    cells = {cell.id: cell.source for cell in cells_of(ROOT / "exercises" / f"{NEXT.lesson}.ipynb")}
    task = page.get_by_role("heading", name=cells[task_of(NEXT)].split("\n")[0].lstrip("# "))  # "3 · Backward"
    playwright.expect(task).to_be_visible(timeout=PATIENCE * 1000)
    page.get_by_role("tab", name="exercise_01_layernorm.ipynb").click()
    resume.click()
    playwright.expect(task).to_be_in_viewport(timeout=15_000)  # JupyterLab scrolls in a notebook that is open already
    notebook.picture(task, "6_resumed")

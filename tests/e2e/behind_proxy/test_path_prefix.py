"""Muster below a path, behind a real proxy that passes the path on, and behind one that strips it."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from support.console import no_errors
from support.ports import free_ports
from support.stack import Stack, wait_for

pytestmark = pytest.mark.browser

# What lies outside of the path is another program's, and here an error.
PROXY = """
defaults
    mode http
    timeout connect 5s
    timeout client 90s
    timeout server 90s
    timeout tunnel 1h
frontend keeps
    bind 127.0.0.1:{keeps}
    http-request deny deny_status 404 unless {{ path /muster }} or {{ path_beg /muster/ }}
    default_backend server
frontend strips
    bind 127.0.0.1:{strips}
    http-request deny deny_status 404 unless {{ path /muster }} or {{ path_beg /muster/ }}
    http-request replace-path /muster/?(.*) /\\1
    default_backend server
backend server
    server muster 127.0.0.1:{server}
"""
SCRIPT = """
import time, pathlib
import muster, numpy

muster.init()
print("from below a path")
muster.log_image("noise", numpy.random.default_rng(0).random((200, 300, 3)), step=0, caption="noise")
pathlib.Path("result.csv").write_text("step,loss\\n1,0.5\\n")
step = 0
while not muster.should_stop():
    step += 1
    muster.log({"train/loss": 1 / step}, step=step)
    time.sleep(0.05)
"""
PASSWORD = "a tolerable passphrase"


@dataclass
class Below:
    stack: Stack
    urls: dict[str, str]


@pytest.fixture(scope="module")
def below() -> Iterator[Below]:
    """One Muster behind both kinds of proxy, with an agent behind each."""
    with tempfile.TemporaryDirectory(prefix="muster-path-", ignore_cleanup_errors=True) as folder:
        server, keeps, strips = range(first := free_ports(3), first + 3)
        config = Path(folder) / "haproxy.cfg"
        config.write_text(PROXY.format(server=server, keeps=keeps, strips=strips))
        urls = {
            "keeps": f"http://127.0.0.1:{keeps}/muster",
            "strips": f"http://127.0.0.1:{strips}/muster",
        }
        environment = {
            "server": {"MUSTER_PUBLIC_URL": urls["keeps"]},
            "agent-local-1": {"MUSTER_AGENT_SERVER_URL": urls["keeps"]},
            "agent-local-2": {"MUSTER_AGENT_SERVER_URL": urls["strips"]},
        }
        stack = Stack(Path(folder) / "home", port=server, environment=environment)
        with subprocess.Popen(["haproxy", "-db", "-f", config]) as proxy:
            try:
                stack.start()
                with stack.client() as client:
                    client.post(
                        "/users", {"username": "ada", "password": PASSWORD, "role": "admin"}
                    )
                yield Below(stack, urls)
            finally:
                stack.close()
                proxy.terminate()


@contextmanager
def window(browser: Browser, url: str) -> Iterator[Page]:
    """A page that asks for nothing outside of the path."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US")
    page, outside = context.new_page(), []

    def look(address: str) -> None:
        if address != url and not address.startswith(
            (f"{url}/", f"ws{url[4:]}/", "data:", "blob:")
        ):
            outside.append(address)

    context.on("request", lambda request: look(request.url))
    page.on("websocket", lambda channel: look(channel.url))
    with no_errors(page):
        yield page
    context.close()
    assert outside == []


@pytest.mark.parametrize("how", ["keeps", "strips"])
def test_everything_works_below_a_path(
    below: Below, browser: Browser, how: str, tmp_path: Path
) -> None:
    url = below.urls[how]
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    with window(browser, url) as page:
        # Signing in leads to the page that was asked for.
        page.goto(f"{url}/submit")
        form = page.get_by_test_id("sign-in-form")
        form.locator("input[name=username]").fill("ada")
        form.locator("input[name=password]").fill(PASSWORD)
        form.locator("button[type=submit]").click()
        page.wait_for_url(f"{url}/submit")
        (cookie,) = page.context.cookies()
        assert (cookie["name"], cookie["path"]) == ("muster_sid.muster", "/muster")

        # Code is uploaded, and runs.
        page.get_by_test_id("submit-editor").click()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(f"name: below-{how}\nentrypoint: train.py\n")
        page.get_by_test_id("code-folder").set_input_files(folder)
        page.get_by_test_id("code-upload").click()
        expect(page.get_by_test_id("code-contents")).to_have_attribute("data-sent", "true")
        expect(page.get_by_test_id("preview")).to_have_attribute("data-valid", "true")
        page.get_by_test_id("submit").click()
        expect(page).to_have_url(re.compile(re.escape(url) + r"/trials/\d+"))
        trial = page.url.partition("?")[0]
        trial_id = int(trial.rpartition("/")[2])

        # The step moves without a reload: by the live channel alone.
        expect(page.get_by_test_id("chart-train/loss").locator("canvas").first).to_be_visible()
        page.evaluate("window.__not_reloaded = true")
        step = page.get_by_test_id("stat-step")

        def shown() -> int:
            digits = re.findall(r"\d[\d,]*", step.inner_text())
            return int(digits[0].replace(",", "")) if digits else 0

        wait_for("steps are shown", lambda: shown() > 0)
        before = shown()
        wait_for("the step moves", lambda: shown() > before + 10)
        assert page.evaluate("window.__not_reloaded")

        # A page, its pictures and its files after a reload.
        page.goto(f"{trial}?tab=logs")
        expect(page.get_by_test_id("log")).to_contain_text("from below a path")
        page.get_by_test_id("log-download").click()
        with page.expect_download() as log:
            page.get_by_role("menuitem").filter(has_text="stdout").first.click()
        assert "from below a path" in Path(log.value.path()).read_text()
        page.get_by_test_id("stop").click()
        page.get_by_test_id("confirm").click()
        with below.stack.client() as client:
            wait_for(
                "its files are collected",
                lambda: client.get(f"/trials/{trial_id}/outputs/summary")["state"] == "complete",
            )
        page.goto(f"{trial}?tab=media")
        picture = page.get_by_test_id("media-card").get_by_role("img", name="noise")
        expect(picture).to_have_js_property("naturalWidth", 300)
        page.goto(f"{trial}?tab=outputs")
        with page.expect_download() as output:
            page.get_by_role("button", name="Download: result.csv").click()
        assert Path(output.value.path()).read_text() == "step,loss\n1,0.5\n"

        # Links inside of the documentation, in this window and for another one.
        page.goto(f"{url}/docs/guides/compose")
        link = page.get_by_test_id("doc").get_by_role("link", name="Helm chart")
        assert str(link.evaluate("link => link.href")).startswith(f"{url}/docs/guides/kubernetes")
        link.click()
        page.wait_for_url(f"{url}/docs/guides/kubernetes*")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Kubernetes")
        page.goto(url)
        expect(page.get_by_test_id("live-state")).to_contain_text("Live")


@pytest.mark.parametrize("how", ["keeps", "strips"])
def test_commands_and_mlflow_use_the_address_with_its_path(
    below: Below, how: str, tmp_path: Path
) -> None:
    stack, url = below.stack, below.urls[how]
    token = stack.access["token"]
    done = stack.cli("login", f"{url}/", stdin=token)
    assert done.returncode == 0, done.stderr
    assert f"Signed in to {url}" in done.stderr
    (tmp_path / "train.py").write_text(f"print('sent to {how}')\n")
    (tmp_path / "experiment.yaml").write_text(f"name: cli-{how}\nentrypoint: train.py\n")
    done = stack.cli("submit", str(tmp_path / "experiment.yaml"), "--follow")
    assert done.returncode == 0, done.stderr
    assert f"{url}/" in done.stderr
    done = stack.cli("logs", *re.findall(r"Submitted experiment (\d+)", done.stderr))
    assert f"sent to {how}" in done.stdout

    api = f"{url}/mlflow/api/2.0"
    with httpx.Client(headers={"Authorization": f"Bearer {token}"}) as mlflow:
        created = mlflow.post(f"{api}/mlflow/experiments/create", json={"name": f"from-{how}"})
        experiment = created.json()["experiment_id"]
        run = mlflow.post(f"{api}/mlflow/runs/create", json={"experiment_id": experiment}).json()
        run_id, root = run["run"]["info"]["run_id"], run["run"]["info"]["artifact_uri"]
        place = f"{api}/mlflow-artifacts/artifacts/{root.partition(':/')[2].lstrip('/')}/notes.txt"
        assert mlflow.put(place, content=b"kept").status_code == 200, place
        assert mlflow.get(place).content == b"kept"
        found = mlflow.get(f"{api}/mlflow/runs/get", params={"run_id": run_id})
        assert found.status_code == 200


def test_agents_of_both_proxies_are_online(below: Below) -> None:
    with below.stack.client() as client:
        assert {node["state"] for node in client.pages("/nodes")} == {"ONLINE"}
    for path in ("/healthz", "/readyz"):
        assert httpx.get(f"{below.stack.url}{path}").status_code == 200

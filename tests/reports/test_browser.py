"""The page in headless Chromium: it draws, sorts, answers to pointer and keyboard, needs no network and fits a phone.

Skips itself where there is no Chromium, driver or Selenium."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lightspec_bench.describe import describe
from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.ranking import rank
from lightspec_bench.reports.report import Look, charts_of, write_report
from lightspec_bench.reports.timeline import Timeline
from tests.reports import tiny
from tests.reports.test_table import SWEEP

selenium = pytest.importorskip("selenium", reason="needs the package selenium")

from selenium.webdriver import Chrome, ChromeOptions  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromedriver")

FIGURES = {
    "gain",
    "pareto",
    "best_k",
    "waterfall",
    "acceptance",
    "throughput",
    "verify_volume",
    "ranking",
    "timeline_1",
}
LONG = "a-trace-with-a-name-that-is-longer-than-a-phone-is-wide:category=chat,loops=drop,seed=0"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every part, of two traces, one with a long name."""
    folder = tmp_path_factory.mktemp("report")
    summary = pd.concat([tiny.summary(SWEEP), tiny.summary(SWEEP, trace=LONG)], ignore_index=True)
    comparison = compare(summary, current="static:k=3")
    timeline = Timeline("chat", "h200", "modelled", 4, [("dspark", tiny.run(steps=tiny.steps([0.1] * 900, [2] * 900)))])
    ranking = rank(comparison)
    assert set(charts_of(comparison, [timeline], True, ranking)) == FIGURES
    described = [describe("none"), describe("dspark")]
    paths = write_report(
        folder, comparison, [timeline], {"suite": "tiny"}, {}, ["A note."], None, ranking, described,
        Look(current="static:k=3"),
    )  # fmt: skip
    return paths[0]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    os.environ["SE_OFFLINE"] = "true"  # Selenium's manager must not download anything
    options = ChromeOptions()
    options.binary_location = str(BROWSER)
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(executable_path=str(DRIVER)))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser: Any, page: Path) -> Any:
    size(browser, 1280)
    browser.get(page.as_uri())
    return browser


def size(browser: Any, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def column(browser: Any, place: int) -> list[str]:
    """Values of a column of the first table of cells, as sorted by, top to bottom."""
    script = "return [...arguments[0].tBodies[0].rows].map((row) => row.children[arguments[1]].dataset.value)"
    table = browser.find_element(By.CSS_SELECTOR, "#tables table")
    return list(browser.execute_script(script, table, place))


def tooltip(browser: Any) -> str:
    return str(
        browser.execute_script("const t = document.querySelector('.tooltip'); return t.hidden ? '' : t.innerText")
    )


def test_it_loads_without_an_error_and_without_the_network(browser: Any, page: Path) -> None:
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(page.as_uri())
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert asked == [page.as_uri()]


def test_every_figure_is_drawn(opened: Any) -> None:
    figures = opened.find_elements(By.CSS_SELECTOR, "figure.chart")
    assert {figure.get_attribute("id") for figure in figures} == FIGURES
    for figure in figures:
        drawn = figure.find_elements(By.CSS_SELECTOR, ".panels:not([hidden]) :is(svg.plot, table.heat)")
        assert drawn
        assert all(each.rect["width"] > 250 and each.rect["height"] > 50 for each in drawn)
        assert figure.find_element(By.TAG_NAME, "figcaption").text.endswith("modelled.")


def test_a_table_sorts_by_exact_values_both_ways(opened: Any) -> None:
    opened.find_element(By.ID, "all-static").click()
    heading = opened.find_elements(By.CSS_SELECTOR, "#tables thead button")[2]
    heading.click()
    down = [float(value) for value in column(opened, 2)]
    assert down == sorted(down, reverse=True)
    assert len(set(down)) > 3
    heading.click()
    assert [float(value) for value in column(opened, 2)] == sorted(down)
    opened.find_elements(By.CSS_SELECTOR, "#tables thead button")[0].click()
    names = column(opened, 0)
    assert names == sorted(names, reverse=True)


def test_pointing_at_a_chart_shows_its_values(opened: Any) -> None:
    plot = opened.find_element(By.CSS_SELECTOR, "#gain svg.plot")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    assert tooltip(opened) == ""
    ActionChains(opened).move_to_element_with_offset(plot, -plot.rect["width"] // 3, 0).perform()
    lines = tooltip(opened).splitlines()
    assert lines[0] == "concurrency (running requests): 1"
    assert "dspark: +60.0 %" in lines


def test_arrow_keys_walk_through_a_chart(opened: Any) -> None:
    plot = opened.find_element(By.CSS_SELECTOR, "#waterfall .panels:not([hidden]) svg.plot")
    plot.send_keys(Keys.ARROW_RIGHT)
    assert tooltip(opened).startswith("none: verify 250 ms, 50.0 % of the step")
    plot.send_keys(Keys.ESCAPE)
    assert tooltip(opened) == ""


def test_a_series_can_be_turned_off_and_on(opened: Any) -> None:
    key = opened.find_element(By.CSS_SELECTOR, "#gain button[data-group=dspark]")
    lines = opened.find_elements(By.CSS_SELECTOR, "#gain g.line[data-group=dspark]")
    assert all(line.is_displayed() for line in lines)
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    assert not any(line.is_displayed() for line in lines)
    key.click()
    assert all(line.is_displayed() for line in lines)


def test_another_load_can_be_chosen(opened: Any) -> None:
    figure = opened.find_element(By.ID, "waterfall")
    assert "64 requests" in figure.find_element(By.CSS_SELECTOR, ".panels:not([hidden]) h4").text
    figure.find_element(By.CSS_SELECTOR, "select option").click()
    (shown,) = figure.find_elements(By.CSS_SELECTOR, ".panels:not([hidden])")
    assert "1 request" in shown.text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_its_window_in_light_and_dark(browser: Any, page: Path, width: int, scheme: str) -> None:
    size(browser, width)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    browser.get(page.as_uri())
    browser.execute_script("document.querySelectorAll('details').forEach((part) => part.open = true)")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 23, 26)"}[scheme]

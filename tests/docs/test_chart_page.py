"""The chart knows the settings of the services, and the page its values."""

from tests.docs.chart_page import PAGE, SET_BY_CHART, SETTINGS, page, settings, values
from tests.docs.settings_page import configs, docs_of


def test_the_chart_knows_the_settings_of_the_services() -> None:
    assert SETTINGS.read_text(encoding="utf-8") == settings(), "run python -m tests.docs.chart_page"


def test_the_table_of_values_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.docs.chart_page"


def test_each_value_of_the_chart_says_what_it_is() -> None:
    assert len(list(values())) > 80


def test_what_the_chart_sets_itself_are_settings() -> None:
    assert set().union(*(docs_of(config) for config in configs().values())) >= SET_BY_CHART

"""The page of settings is complete, and as the services have them."""

import dataclasses

import pytest

from tests.docs.settings_page import PAGE, configs, docs_of, launched, page


def test_the_page_of_settings_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.docs.settings_page"


def test_every_service_that_has_settings_is_on_the_page() -> None:
    assert {"controller", "gateway", "group_coordinator", "storage"} <= configs().keys()


@pytest.mark.parametrize("service", configs())
def test_every_setting_says_what_it_is(service: str) -> None:
    config = configs()[service]
    assert [field.name for field in dataclasses.fields(config) if not docs_of(config).get(field.name)] == []


@pytest.mark.parametrize("service", configs())
def test_a_variable_that_the_launcher_sets_is_a_setting(service: str) -> None:
    of_services = (service, "storage", "gateway") if service == "node" else (service,)
    names = {f"PENSTOCK_{field.name.upper()}" for each in of_services for field in dataclasses.fields(configs()[each])}
    assert {variable for variable in launched().get(service, ()) if variable.startswith("PENSTOCK_")} <= names

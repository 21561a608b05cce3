"""Settings of the gateway, and that importing it costs nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from evokern.errors import UsageError
from evokern.model import GatewaySettings, LiteLLMModel, Model


def test_the_command_line_goes_before_the_environment() -> None:
    environ = {"EVOKERN_MODEL": "openai/b", "EVOKERN_API_BASE": "http://127.0.0.1:8000/v1", "EVOKERN_API_KEY": "secret-key"}
    settings = GatewaySettings.from_environment("openai/a", environ)
    assert settings is not None
    assert (settings.model, settings.api_base, settings.api_key) == ("openai/a", "http://127.0.0.1:8000/v1", "secret-key")
    named = GatewaySettings.from_environment(None, environ, in_flight=2)
    assert named is not None
    assert (named.model, named.in_flight, named.timeout_s) == ("openai/b", 2, 300.0)
    impatient = GatewaySettings.from_environment(None, environ | {"EVOKERN_API_TIMEOUT": "2.5"})
    assert impatient is not None
    assert impatient.timeout_s == 2.5
    with pytest.raises(UsageError, match="EVOKERN_API_TIMEOUT"):
        GatewaySettings.from_environment(None, environ | {"EVOKERN_API_TIMEOUT": "soon"})


@pytest.mark.parametrize("environ", [{}, {"EVOKERN_MODEL": ""}, {"EVOKERN_MODEL": "  "}])
def test_no_name_means_no_model(environ: dict[str, str]) -> None:
    assert GatewaySettings.from_environment("", environ) is None


@pytest.mark.parametrize("address", ["localhost:8000", "ftp://host/v1", "http://", "http://host:notaport/v1", "not an address"])
def test_a_wrong_address_is_one_clear_line(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        GatewaySettings("openai/a", api_base=address)
    assert "EVOKERN_API_BASE" in caught.value.line
    assert address in caught.value.line
    assert "\n" not in caught.value.line


def test_values_that_cannot_work_are_refused() -> None:
    wrong: list[dict[str, Any]] = [{"timeout_s": 0.0}, {"retries": -1}, {"in_flight": 0}, {"longest_wait_s": -1.0}]
    for fields in wrong:
        with pytest.raises(UsageError, match="in_flight >= 1"):
            GatewaySettings("openai/a", **fields)
    with pytest.raises(UsageError, match="empty"):
        GatewaySettings(" ")


def test_the_key_is_not_in_the_settings_text() -> None:
    assert "secret-key" not in repr(GatewaySettings("openai/a", api_key="secret-key"))


def test_a_gateway_is_a_model() -> None:
    assert isinstance(LiteLLMModel(GatewaySettings("openai/a")), Model)


def test_importing_and_making_one_imports_nothing_heavy() -> None:
    code = (
        "import sys; from evokern.model import GatewaySettings, LiteLLMModel; import evokern.operators.mutate, evokern.operators.cross; "
        "LiteLLMModel(GatewaySettings('openai/a')); "
        "print([m for m in ('litellm', 'openai', 'torch', 'jinja2', 'sqlmodel', 'tree_sitter') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"

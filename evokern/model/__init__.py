"""Model: a language model behind one method, `async complete(messages, *, max_tokens, temperature) -> Completion`.

`protocol` has the contract and the closed list of failures, `gateway` the one implementation, over litellm, which knows every
provider and any OpenAI-compatible endpoint. `breaker` stops calling an endpoint that is down, `meter` counts every call,
whatever came of it. Importing this package imports none of litellm: that takes seconds and is done on the first call.
"""

from evokern.model.breaker import Breaker, BreakerSettings
from evokern.model.gateway import GatewaySettings, LiteLLMModel, ModelStatus
from evokern.model.meter import Meter, Spend
from evokern.model.protocol import CallError, Completion, Failure, Finish, Message, Model, Usage

__all__ = [
    "Breaker",
    "BreakerSettings",
    "CallError",
    "Completion",
    "Failure",
    "Finish",
    "GatewaySettings",
    "LiteLLMModel",
    "Message",
    "Meter",
    "Model",
    "ModelStatus",
    "Spend",
    "Usage",
]

"""NeMo-Gym: a resources server whose `/verify` judges a response.

NeMo-Gym asks for a number, so an `invalid` verdict is answered with HTTP 503 and the rollout is collected again.
"""

from typing import Any

from fastapi import HTTPException
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)

from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.rewards.opening import shared_grader
from warpsmith.evaluator.rewards.score import InvalidVerdictError

__all__ = ["KernelResourcesServer", "KernelResourcesServerConfig"]


class KernelResourcesServerConfig(BaseResourcesServerConfig):  # type: ignore[misc]
    """Settings of the server.

    Attributes:
        servers: evaluation servers; without any, kernels are judged on this machine.
        operators: what `forward` may compute with PyTorch besides its kernels.
    """

    servers: tuple[str, ...] = ()
    operators: OperatorPolicy = "none"


class KernelVerifyRequest(BaseVerifyRequest):  # type: ignore[misc]
    """A response to judge.

    Attributes:
        problem: the problem's source, a field of the data set's rows.
    """

    problem: str


class KernelVerifyResponse(BaseVerifyResponse):  # type: ignore[misc]
    """The reward, with the verdict."""

    status: str
    feedback: str
    verdict: dict[str, Any]


class KernelResourcesServer(SimpleResourcesServer):  # type: ignore[misc]
    """Judges the last text of a response."""

    config: KernelResourcesServerConfig

    async def verify(self, body: KernelVerifyRequest) -> KernelVerifyResponse:
        """Return the score of a response; HTTP 503 if the evaluator failed."""
        grader = shared_grader(list(self.config.servers) or None, operators=self.config.operators)
        try:
            grade = await grader.grade_async(_text(body.response), body.problem)
        except InvalidVerdictError as error:
            raise HTTPException(503, str(error)) from error
        return KernelVerifyResponse(
            **body.model_dump(),
            reward=grade.score,
            status=grade.verdict.status,
            feedback=grade.feedback,
            verdict=grade.verdict.to_record(),
        )


def _text(response: Any) -> str:
    """Return what the assistant said last."""
    messages = [item for item in response.output if item.type == "message"]
    parts = messages[-1].content if messages else []
    return "".join(part.text for part in parts if part.type == "output_text")

"""What to do where nothing answers."""

from __future__ import annotations

from rl.models import BASE, Deployment


def deploy_command(agent: str, version: str = BASE) -> str:
    """It makes the version answer on this machine; an agent's name needs no quotes in a shell."""
    target = Deployment.Target.LLAMA_CPP.value
    return f"python3 manage.py deploy_model --agent {agent} --version {version} --target {target}"

"""The options of its two scripts, and what they are where nothing is given."""

from dataclasses import dataclass
from pathlib import Path

from rl.base.errors import UsageError
from rl.environments.config_file import AgentFile

HUGGINGFACE, MINIMIND = "huggingface", "minimind"
DATASETS = {"code_exec": "dataset/code_tasks", "search": "dataset/search_tasks"}
PREVIEWS = {"code_exec": 3, "search": 2}
MODEL = "model"


@dataclass(frozen=True, slots=True)
class Defaults:
    dataset_dir: str = ""
    base_model: str = ""
    preview_tasks: int = 0
    notes: tuple[str, ...] = ()


def policy_type_of(name: str | None) -> str | None:
    """Ours. A model of Hugging Face is talked to as its own chat template says."""
    return "auto" if name == HUGGINGFACE else name


def base_model_of(policy_type: str | None, base_model: str, model_path: str, hub_name: str) -> str:
    """A folder or a hub id; empty where the file says which. Raises UsageError for a folder that is not there."""
    if base_model and (model_path or hub_name):
        raise UsageError("--base-model names a model already: leave out --model-path and --hf-model-name")
    if base_model:
        return base_model
    if policy_type == HUGGINGFACE or not model_path:
        name = "" if policy_type == MINIMIND else hub_name
        return str(Path(name).resolve()) if name and Path(name).is_dir() else name
    folder = Path(model_path).expanduser()
    if not folder.is_dir():
        raise UsageError(f"--model-path {model_path}: there is no such folder")
    return str(folder.resolve())


def defaults_for(file: AgentFile, policy_type: str | None) -> Defaults:
    """For a file of Miniagent. Paths are looked for in the working directory. Raises UsageError where the policy type wants
    a folder, and there is none."""
    kind = file.environment.type
    folder = Path(DATASETS.get(kind, "dataset"))
    dataset_dir = file.dataset_dir or (str(folder.resolve()) if folder.is_dir() else "")
    notes = [] if dataset_dir else [f"there is no folder {folder} here: the tasks are those that come with Ratchet"]
    model = Path(MODEL)
    has_model = policy_type != HUGGINGFACE and (model / "config.json").is_file()
    if policy_type == MINIMIND and not has_model:
        raise UsageError(
            f"--policy-type {MINIMIND} takes the model from --model-path, and there is no folder {MODEL} here"
        )
    return Defaults(dataset_dir, str(model.resolve()) if has_model else "", PREVIEWS.get(kind, 0), tuple(notes))

"""What follows from the gate's verdict: export, a look at the exported file, deployment, promotion."""

from rl.base.leaves import leaf
from rl.base.records import Report
from rl.evaluation import exported_file
from rl.evaluation.duels import MADE
from rl.export import release
from rl.models import Agent, Evaluation, ModelVersion
from rl.runs.choosing import RunOptions
from rl.runs.ladder import RESOURCES
from rl.serving.deploy import deploy, file_name
from rl.serving.promotion import promote
from rl.versions import versions


def act_on_verdict(version: ModelVersion, evaluation: Evaluation, options: RunOptions, report: Report) -> Evaluation:
    """Returns the evaluation that had the last word: that of the exported file, where that is held back.

    Raises what exporting and deploying raise; the version in use is still the old one then.
    """
    if options.output_dir:
        versions.copy_weights(version, options.output_dir)
    if evaluation.verdict == Evaluation.Verdict.REJECT:
        version.move(ModelVersion.Stage.REJECTED)
        return evaluation
    version.move(ModelVersion.Stage.EVALUATED)
    if version.is_reward_model:
        return evaluation
    if evaluation.verdict != Evaluation.Verdict.PROMOTE:
        waits = f"; {made} duels wait for people's picks" if (made := evaluation.report.get(MADE)) else ""
        report("log", {"text": f"the gate is undecided: the version is kept, and neither exported nor used{waits}"})
        return evaluation
    if options.export or options.deploy:
        of_file = _export(version, evaluation, options, report)
        if of_file.verdict == Evaluation.Verdict.REJECT:
            report("log", {"text": f"the version is kept, and not used: {of_file.report['reason']}"})
            return of_file
    if version.agent.promoted_by == Agent.Decider.OPERATOR:
        report("log", {"text": f"{version.name} waits for a person to put it into use: its page has the button"})
        return evaluation
    if options.deploy:
        name, level = options.model_name, options.quantization
        deploy(version.agent, version, target=options.deploy, quantization=level, model_name=name, report=report)
    promote(version.agent, version, report=report)
    return evaluation


def _export(version: ModelVersion, evaluation: Evaluation, options: RunOptions, report: Report) -> Evaluation:
    """What is known of the file; the verdict on the weights where it cannot be judged."""
    leaf(RESOURCES).release_memory()
    report("stage", {"name": f"exporting GGUF {options.quantization}"})
    name = file_name(options.model_name)
    artifact = release.export_version(version, "gguf", options.quantization, name=name, report=report)
    return exported_file.judge(version, artifact, evaluation.training_set, report) or evaluation

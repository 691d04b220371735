"""Supervised fine-tuning (SFT) of a LoRA adapter on the answers that people accept: chosen, edited and liked ones.

Rows: as in mpo.py. What was rejected is not learned. See imitating.py for the loss.

Where the answers have right ones none are held out: the run is cross-fitted (cross_fitting.py).
"""

from rl.base.errors import NotEnoughData
from rl.base.records import Report, TrainingResult
from rl.config.methods import bakes_in
from rl.config.training_job import TrainingJob
from rl.training import fitting
from rl.training.baking import with_baked_rows
from rl.training.cross_fitting import Curve, answer_unseen
from rl.training.imitating import good_rows, held_out, load_untrained, make_trainer, repeat_rare, steady_schedule
from rl.training.kept_passes import kept_passes
from rl.training.preparing import encoded_rows, prepare
from rl.training.watch import watch


def train(job: TrainingJob, report: Report) -> TrainingResult:
    if bakes_in(job.config):
        job = with_baked_rows(job, report)
    with prepare(job, report) as start:
        # rows: prompt_ids and answer_ids, on disk
        encoded, lengths = encoded_rows(start, "sft")
        good = good_rows(start, ((row["prompt_ids"], row["chosen_ids"]) for row in iter(encoded) if row["chosen_ids"]))
        if not len(good):
            raise NotEnoughData(f"no row of {job.train_rows} has an accepted answer that fits")
        rows = repeat_rare(start, good)
        repeated = f"; with rare ones repeated {len(rows)} a pass" if len(rows) > len(good) else ""
        disliked = sum(not row["chosen_ids"] for row in iter(encoded))
        left_out = f"; {disliked} that are only disliked teach it nothing" if disliked else ""
        report("log", {"text": f"imitates {len(good)} accepted answers{left_out}{repeated}"})
        model = load_untrained(start)
        curve = Curve(job.output_dir, goes_on=False)
        if job.folds:
            model, curve = answer_unseen(start, model)
            report("log", {"text": curve.describe()})
        more = {"held_out": held_out(start), **steady_schedule(job.config, len(rows))}
        trainer = make_trainer(start, model, rows, job.config, **more)
        trainer.right = curve.at_steps(job.config.steps(len(rows)))
        with fitting.fast_passes(start, trainer.model):
            watches = [*watch(start, trainer.model, rows, imitates=True), *kept_passes(job)]
            fitting.fit(trainer, job, start.checkpoint, report, watches=watches)
        return fitting.finish(trainer, start, lengths)

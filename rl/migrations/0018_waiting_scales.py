"""Ratings of any scale wait for their answers, not thumbs alone; versions are called v1, v2, …"""

from django.db import migrations, models
from django.db.models import Case, Value, When


def thumbs_to_values(apps, schema_editor):
    rows = apps.get_model("rl", "WaitingRating").objects.using(schema_editor.connection.alias)
    rows.update(value=Case(When(up=True, then=Value(1.0)), default=Value(0.0)))


def values_to_thumbs(apps, schema_editor):
    """What is not a thumb, and what waits by id, has no row before this."""
    rows = apps.get_model("rl", "WaitingRating").objects.using(schema_editor.connection.alias)
    rows.filter(by_id=True).delete()
    rows.exclude(scale="thumb").delete()
    rows.filter(value__gt=0.5).update(up=True)


class Migration(migrations.Migration):
    dependencies = [("rl", "0017_people")]

    operations = [
        migrations.AlterField(
            model_name="modelversion",
            name="name",
            field=models.CharField(help_text="v1, v2, v3 … in the order of training.", max_length=64),
        ),
        migrations.AddField(
            model_name="waitingrating",
            name="by_id",
            field=models.BooleanField(default=False, help_text="A token gave the id that the answer will have here."),
        ),
        migrations.AddField(
            model_name="waitingrating",
            name="scale",
            field=models.CharField(
                choices=[("thumb", "thumb (0 or 1)"), ("stars", "stars (1 to 5)"), ("score", "score (0 to 1)")],
                default="thumb",
                max_length=8,
            ),
        ),
        migrations.AddField(
            model_name="waitingrating",
            name="value",
            field=models.FloatField(default=0, help_text="As it was given."),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name="waitingrating",
            name="up",
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(thumbs_to_values, values_to_thumbs),
        migrations.RemoveField(model_name="waitingrating", name="up"),
        migrations.AlterField(
            model_name="waitingrating",
            name="entry_id",
            field=models.CharField(
                help_text="The answer's external id, or the id that it will have here.", max_length=200
            ),
        ),
        migrations.RemoveConstraint(model_name="waitingrating", name="waiting_rating_of_agent"),
        migrations.AddConstraint(
            model_name="waitingrating",
            constraint=models.UniqueConstraint(
                fields=("agent", "entry_id", "rater", "by_id"), name="waiting_rating_of_agent"
            ),
        ),
    ]

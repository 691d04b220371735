"""Ratings of browsers keep a keyed hash of where they came from."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("rl", "0018_waiting_scales")]

    operations = [
        migrations.AddField(
            model_name="feedback",
            name="address",
            field=models.CharField(
                blank=True,
                editable=False,
                help_text="Of a browser: a keyed hash of its address and the day.",
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="waitingrating",
            name="address",
            field=models.CharField(blank=True, editable=False, help_text="As of feedback.", max_length=16),
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("rl", "0026_groups")]

    operations = [
        migrations.AddIndex(
            model_name="feedback",
            index=models.Index(
                condition=models.Q(("is_current", True), ("kind__in", ("comparison", "correction"))),
                fields=["agent", "kind"],
                name="feedback_direct",
            ),
        ),
    ]

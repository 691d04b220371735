from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("rl", "0026_groups")]

    operations = [
        migrations.AddIndex(
            model_name="feedback",
            index=models.Index(
                condition=models.Q(("is_current", True), models.Q(("kind", "comparison"), ("kind", "correction"), _connector="OR")),
                fields=["agent", "kind"],
                name="feedback_direct",
            ),
        ),
    ]

import rl.models.agents
from django.db import migrations, models


def name_the_toy_model(apps, schema_editor):
    """An empty base model was the toy model's name."""
    agents = apps.get_model("rl", "Agent").objects.using(schema_editor.connection.alias)
    agents.filter(base_model="").update(base_model="tiny")


class Migration(migrations.Migration):

    dependencies = [
        ('rl', '0007_boundary'),
    ]

    operations = [
        migrations.RunPython(name_the_toy_model, migrations.RunPython.noop),
        migrations.AlterField(
            model_name='agent',
            name='base_model',
            field=models.CharField(default=rl.models.agents.default_base_model, help_text='smollm2, tiny, a hub id such as Qwen/Qwen2.5-1.5B-Instruct (with @revision: that one), a folder, or a GGUF file.', max_length=500),
        ),
    ]

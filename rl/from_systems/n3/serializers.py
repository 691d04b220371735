"""N3's policies: camelCase, in and out."""

from __future__ import annotations

from rest_framework import serializers

from rl.collect.limits import MAX_NOTES_LENGTH
from rl.web.api.serializers.fields import NumberField, StrictSerializer, TextField


class PolicyFeedbackIn(StrictSerializer):
    prompt = TextField(help_text="What the agent was asked.")
    response = TextField(help_text="What it answered.")
    score = NumberField(min_value=0, max_value=1, help_text="0 is bad, 1 is good.")
    runId = TextField(
        required=False, allow_null=True, max_length=200, help_text="Tells equal answers of two runs apart."
    )
    notes = TextField(required=False, allow_null=True, allow_blank=True, max_length=MAX_NOTES_LENGTH)


class PolicyFeedbackOut(serializers.Serializer):
    status = serializers.CharField(help_text="submitted")
    id = serializers.CharField(help_text="Of the feedback event.")
    agentId = serializers.CharField()
    score = serializers.FloatField()
    createdAt = serializers.DateTimeField()


class TrainPolicyIn(serializers.Serializer):
    """Beside these, any hyper-parameter of the method, in camelCase."""

    dryRun = serializers.BooleanField(
        required=False, default=False, help_text="Say what would be trained, and do nothing."
    )
    method = TextField(required=False, help_text="Default: the one that training_plan advises.")
    baseModel = TextField(required=False, help_text="Default: the agent's.")
    maxSteps = serializers.IntegerField(required=False, min_value=0, help_text="Optimiser steps; 0: by epochs.")
    learningRate = NumberField(required=False)
    rewardModel = TextField(
        required=False,
        allow_null=True,
        help_text="Name of a reward model's version, for methods that generate; ppo takes the newest where it is left out.",
    )
    full = serializers.BooleanField(required=False, help_text="Train all weights instead of an adapter.")


class ModelConfigOut(serializers.Serializer):
    base_model = serializers.CharField()
    use_lora = serializers.BooleanField()
    lora_r = serializers.IntegerField(allow_null=True)
    learning_rate = serializers.FloatField()


class TrainPolicyDryRun(serializers.Serializer):
    status = serializers.CharField(help_text="dry_run")
    method = serializers.CharField()
    feedbackCount = serializers.IntegerField()
    estimatedSteps = serializers.IntegerField(allow_null=True, help_text="null: the base model is not here yet.")
    estimatedTimeMinutes = serializers.FloatField(allow_null=True)
    scoreMean = serializers.FloatField(allow_null=True)
    scoreStd = serializers.FloatField(allow_null=True)
    modelConfig = ModelConfigOut()


class _Figures(serializers.Serializer):
    feedbackCount = serializers.IntegerField(allow_null=True)
    rewardMean = serializers.FloatField(
        allow_null=True,
        help_text="Of the policy's fresh answers by rewardModel, -1 to 1; without one, of its return in training, less its "
        "KL penalty; null: not measured.",
    )
    rewardStd = serializers.FloatField(allow_null=True)
    rewardModel = serializers.CharField(
        allow_null=True, help_text="The newest reward model, where it scored fresh answers."
    )
    scoreMean = serializers.FloatField(allow_null=True, help_text="Of the scores that it learned from, 0 to 1.")
    scoreStd = serializers.FloatField(allow_null=True)


class PolicyRunOut(_Figures):
    status = serializers.CharField(help_text="queued, running, trained, failed or cancelled.")
    runUrl = serializers.CharField(help_text="Ask here again.")
    method = serializers.CharField()
    step = serializers.IntegerField()
    totalSteps = serializers.IntegerField()
    error = serializers.CharField(allow_blank=True)
    detail = serializers.CharField(required=False, help_text="Why it failed.")
    policyId = serializers.CharField(allow_null=True)
    version = serializers.CharField(allow_null=True)
    modelPath = serializers.CharField(
        allow_null=True,
        help_text="The directory of the adapter or the model, with its tokenizer, on the site's machine.",
    )
    rewardModelPath = serializers.CharField(allow_null=True)
    trainingSteps = serializers.IntegerField()


class PolicyOut(serializers.Serializer):
    id = serializers.CharField()
    agentId = serializers.CharField()
    version = serializers.CharField()
    createdAt = serializers.DateTimeField()
    trainedOn = _Figures()
    metrics = _Figures(help_text="The same as trainedOn.")

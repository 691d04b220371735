"""Label models, proposed labels."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString

from rl.admin.markup import change_link, column, list_link, percent
from rl.admin.readonly import ReadOnlyAdmin
from rl.models import LabelModel, LabelProposal, Trace


@admin.register(LabelModel)
class LabelModelAdmin(ReadOnlyAdmin):
    list_display = ["id", "agent", "labels", "accuracy", "majority", "created_at"]
    list_filter = ["agent"]
    list_select_related = ["agent"]
    search_fields = ["=id", "agent__name"]
    fields = ["agent", "labels", "heldout_labels", "accuracy", "majority", "calibration", "proposal_link", "created_at"]

    accuracy = column("held-out accuracy", lambda model: percent(model.heldout_accuracy))
    majority = column("always the commoner label", lambda model: percent(model.majority_share))

    @admin.display(description="proposals")
    def proposal_link(self, model: LabelModel) -> SafeString:
        return list_link(LabelProposal, "proposed labels", label_model__id__exact=model.pk)


@admin.register(LabelProposal)
class LabelProposalAdmin(ReadOnlyAdmin):
    """A proposal is not feedback: it is listed here and marked as proposed wherever it is used."""

    list_display = ["short_id", "good", "confidence", "label_model", "created_at"]
    list_filter = ["good", "label_model"]
    list_select_related = ["label_model"]
    search_fields = ["trace__id__startswith"]
    fields = ["of", "good", "confidence", "label_model", "created_at"]

    short_id = column("trace", lambda proposal: str(proposal.trace_id)[:8])
    of = column("trace", lambda proposal: change_link(Trace, proposal.trace_id, proposal.trace_id))

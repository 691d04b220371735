"""Feedback."""

from string import hexdigits
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from rl.admin import markup
from rl.base.errors import RatchetError
from rl.forgetting.erasing import erase_later
from rl.forgetting.forget import forget, preview
from rl.forgetting.receipts import sentences
from rl.forgetting.records import find_person
from rl.models import Agent, Feedback, QuestionStart, Trace, TrainingSet, WaitingRating

SHOWN = 80
"""Characters of a question and of an answer in the list."""

NEWEST = 20_000
"""Feedback in whose notes words are looked for."""
MOST = 500
"""Rows that one way of a search gives."""


def _some_keys(*ways: QuerySet[Any]) -> list[Any]:
    """MOST of each."""
    return [key for rows in ways for key in rows.values_list("pk", flat=True)[:MOST]]


class TraceAdmin(markup.ReadOnlyAdmin):
    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Trace], search_term: str) -> Any:
        """Each way has an index, which conditions that ignore the case, or look for a part of an id, do not use."""
        term = search_term.strip()
        if not term:
            return queryset, False
        agents = list(Agent.objects.values_list("pk", flat=True))  # their index begins with the agent
        in_session = Trace.objects.filter(agent__in=agents, session_id=term).exclude(session_id="")
        ways = (Trace.by_external_id(term), in_session.order_by(), Trace.objects.filter(_begins_with(term)).order_by())
        return queryset.filter(pk__in=_some_keys(*ways)), False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Trace]:
        """For the list, the beginnings of texts only."""
        rows = super().get_queryset(request)
        if request.resolver_match and request.resolver_match.url_name != "rl_trace_changelist":
            return rows
        rows = rows.annotate(question_text=QuestionStart("prompt"), answer_text=Left("response", SHOWN))
        return rows.only("agent", "model_version", "source", "created_at")

    @admin.display(description="prompt")
    def conversation(self, trace: Trace) -> SafeString:
        lines = ((message["role"], markup.text_block(message["content"])) for message in trace.prompt)
        return format_html_join("", '<div class="message"><b>{}</b>{}</div>', lines)


def _begins_with(term: str) -> Q:
    """Ids from the first to the last that begin so; nothing where none can."""
    digits = term.replace("-", "").lower()
    if len(digits) > 32 or set(digits) - set(hexdigits):
        return Q(pk__in=())
    return Q(pk__gte=UUID(digits.ljust(32, "0")), pk__lte=UUID(digits.ljust(32, "f")))


markup.records(
    Trace,
    TraceAdmin,
    show="short_id agent question_start answer_start version source created_at",
    filter="created_at agent",
    select="agent model_version",
    search="id",  # that there is a box; see get_search_results
    search_help_text="The start of an id, a whole external id or session id. Words are looked for on the page Traces.",
    fieldsets={
        None: "id agent version feedback_link conversation answer extras",
        "Where it came from": "source external_id session_id prompt_key occurred_at created_at",
        "What happened": "tool_calls reasoning_steps tasks state action",
        "Rewards": "reward components rewarded_at reward_pending",
        "What it cost": "tokens_in tokens_out llm_calls cost duration_ms",
    },
    short_id=markup.column("id", lambda trace: str(trace.pk)[:8]),
    question_start=markup.column("question", lambda trace: (trace.question_text or "")[:SHOWN]),
    answer_start=markup.column("answer", lambda trace: trace.answer_text),
    version=markup.link_column("model_version", lambda trace: trace.model_version and trace.model_version.name),
    feedback_link=markup.column(
        "feedback",
        lambda trace: markup.list_link(Feedback, f"{trace.feedback.count()} recorded", trace__id__exact=trace.pk),
    ),
    answer=markup.column("response", lambda trace: markup.text_block(trace.response)),
    extras=markup.column("details", lambda trace: markup.value_table(trace.details)),
    components=markup.column("by component", lambda trace: markup.value_table(trace.rewards)),
)
markup.records(  # ratings of answers that were not stored yet
    WaitingRating,
    show="entry_id agent rater scale value rated_at",
    filter="agent",
    select="agent",
    search="=entry_id =rater",
    fields="agent entry_id by_id rater api_key scale value tags notes rated_at created_at updated_at",
)

FORGET = "rl.delete_feedback"


@admin.register(Feedback)
class FeedbackAdmin(markup.ReadOnlyAdmin):
    """Events are never changed here: people rate again, or take their rating back, where they gave it."""

    list_display = ["id", "created_at", "agent", "kind", "opinion", "rater", "answer", "is_current", "learned_in"]
    list_filter = ["is_current", "kind", "scale", "created_at", "agent"]
    list_select_related = ["agent"]
    search_fields = ["id"]  # that there is a box; see get_search_results
    search_help_text = f"A whole rater or external id, or words of a note of the newest {NEWEST:,}."
    fieldsets = markup.split_fieldsets(
        {
            None: "agent answer kind is_current learned_in",
            "What was said": "scale raw_value value choice other text metric tags notes",
            "By whom, and when": "rater user source api_key rated_at created_at",
            "History": "withdrew withdrawn_by quarantine",
        }
    )
    actions = ["forget_rater"]

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Feedback], search_term: str) -> Any:
        """Each way by itself: joined by OR the database would read all that there is."""
        term = search_term.strip()
        if not term:
            return queryset, False
        newest = Feedback.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        noted = Feedback.objects.filter(pk__gt=newest - NEWEST, notes__icontains=term).order_by()
        return queryset.filter(
            Q(rater=term) | Q(trace__in=_some_keys(Trace.by_external_id(term))) | Q(pk__in=_some_keys(noted))
        ), False

    def has_forget_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(FORGET)

    @admin.action(description="Forget this rater…", permissions=["forget"])
    def forget_rater(self, request: HttpRequest, queryset: QuerySet[Feedback]) -> HttpResponse | None:
        """Shows what would be done; does it once that is confirmed."""
        raters = sorted(set(queryset.order_by().values_list("rater", flat=True)))
        if len(raters) != 1:
            messages.error(request, "Select feedback of one rater only: one person is forgotten at a time.")
            return None
        person = find_person(raters[0])
        if "confirmed" not in request.POST:
            receipt = preview(person)
            context = {
                **self.admin_site.each_context(request),
                "title": f"Forget {raters[0]}?",
                "opts": self.opts,
                "receipt": receipt,
                "sentences": list(sentences(receipt)),
                "event": queryset.order_by("pk").first(),
                "checkbox": ACTION_CHECKBOX_NAME,
            }
            return TemplateResponse(request, "admin/rl/feedback/forget.html", context)
        try:
            receipt = forget(person, erase=erase_later)
        except RatchetError as error:
            messages.error(request, f"Nothing was deleted: {error}.")
            return None
        messages.success(request, f"The person is forgotten. {' '.join(sentences(receipt))}")
        return None

    @admin.display(description="value")
    def opinion(self, event: Feedback) -> str:
        if event.kind == Feedback.Kind.COMPARISON:
            return event.get_choice_display()
        if event.raw_value is None:
            return markup.NOTHING
        return f"{event.raw_value:g} {event.scale or event.metric}"

    answer = markup.link_column("trace", lambda event: str(event.trace_id)[:8])
    other = markup.link_column("other_trace", lambda event: str(event.other_trace_id)[:8])

    @admin.display(description="training set")
    def learned_in(self, event: Feedback) -> SafeString | str:
        if event.training_set_id is None:
            return "waits" if event.is_current else markup.NOTHING
        return markup.change_link(TrainingSet, event.training_set_id, str(event.training_set_id)[:8])

    withdrew = markup.column(
        "withdraws", lambda event: markup.change_link(Feedback, event.retracts_id, f"event {event.retracts_id}")
    )

    @admin.display(description="withdrawn by")
    def withdrawn_by(self, event: Feedback) -> SafeString | str:
        if not event.retractions.exists():
            return markup.NOTHING
        return markup.list_link(Feedback, "retraction", retracts__id__exact=event.pk)

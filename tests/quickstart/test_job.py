import pytest
from django.contrib.auth.models import User

from rl.demo.load import load_demo
from rl.demo.mailroom import MailroomMessage, draw_parts
from rl.models import Agent, Feedback
from rl.quickstart.job import NO_TEAM, Job, Sorted
from tests.conftest import make_trace

MAIL = [
    MailroomMessage("Where is my parcel?", "delivery"),
    MailroomMessage("My chain is torn.", "repairs"),
    MailroomMessage("I sent it back, where is my money?", "returns", "billing"),
]


def test_an_answer_is_right_where_it_names_a_team_that_could_take_the_message():
    mail = Sorted(MAIL, ["The parcel is on its way.", "Repairs.", ""], ["delivery", "delivery", "billing"], "v1")
    assert mail.right == {"before": 1, "after": 2, "of": 3}
    assert mail.questions[0] == {"prompt": MAIL[0].text, "before": "The parcel is on its way.", "after": "delivery"}


def test_the_confusion_table_counts_every_answer_once():
    mail = Sorted(MAIL, ["", "", ""], ["delivery", "I am a bicycle.", "billing"], "v1")
    counted = {team: row for team, row in mail.confusion.items() if row}
    assert counted == {"delivery": {"delivery": 1}, "repairs": {NO_TEAM: 1}, "billing": {"billing": 1}}


@pytest.fixture
def job(db: None, alice: User) -> Job:
    """The model has said what it likes, and is right by chance about the first message."""
    agent, (corrected, *_) = load_demo("smollm2", 1), draw_parts(1)
    for message in corrected:
        said = message.team if message is corrected[0] else "I am sorry to hear that."
        make_trace(agent, message.text, said, session_id="quickstart-before")
    return Job(agent, alice.pk, 1)


def test_colleagues_correct_what_is_wrong_and_like_what_is_right_once(job: Job):
    assert (job.correct(), job.correct()) == (39, 39)
    assert Feedback.objects.filter(kind="rating", value=1).count() == 1
    assert Feedback.objects.count() == 40
    assert all(event.rater.startswith("simulated-") for event in Feedback.objects.all())


def test_messages_that_were_asked_are_not_asked_again(job: Job):
    corrected, unseen, _ = draw_parts(1)
    for message in unseen:
        make_trace(Agent.objects.get(), message.text, "Hello!", session_id="quickstart-before")
    assert len(job.ask_before()) == len(corrected) + len(unseen)  # nothing is served here: whoever asks fails

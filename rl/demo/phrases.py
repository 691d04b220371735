"""The words of the demo: topics of a support chat, situations people write from, and the parts of two kinds of answer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple


class Topic(NamedTuple):
    noun: str
    """Fits after 'about'."""
    problem: str
    """A clause in the first person, without a full stop."""
    steps: tuple[str, ...]
    """Sentences that each say one concrete thing to do; every one would help."""


TOPICS: tuple[Topic, ...] = (
    Topic(
        "your invoice",
        "I cannot download my March invoice",
        (
            "Open Settings, choose Billing and press the arrow next to March.",
            "Sign in on a computer, go to Billing and click Download PDF.",
            "Reply with your invoice number and we will email you the PDF.",
        ),
    ),
    Topic(
        "your password",
        "the password reset link does not work",
        (
            "Request a new link on the sign-in page and use it within ten minutes.",
            "Copy the whole link into a private browser window and press Enter.",
            "Choose Send a code instead and type the six digits from your phone.",
        ),
    ),
    Topic(
        "your parcel",
        "my parcel has not arrived",
        (
            "Open Orders, choose Track and check the last scan of the carrier.",
            "Reply with your order number and we will ship it again on Monday.",
            "Ask the pickup shop on Mill Street and show them the order number.",
        ),
    ),
    Topic(
        "your refund",
        "the refund for my headphones is missing",
        (
            "Open Returns, choose the headphones and press Send refund again.",
            "Check the card that ends in your last four digits after Thursday.",
            "Send us a photo of the return slip and we will pay within two days.",
        ),
    ),
    Topic(
        "your subscription",
        "I was charged after I cancelled my subscription",
        (
            "Open Plan, press Cancel once more and keep the confirmation number.",
            "Reply with the date of the charge and we will return it today.",
            "Go to Billing, choose Dispute and select the newest charge.",
        ),
    ),
    Topic(
        "the app",
        "the app closes when I open the camera",
        (
            "Update the app to version 4.2 and allow the camera in Settings.",
            "Hold the app icon, choose Clear cache and open the camera again.",
            "Remove the app, restart the phone and install it from the store.",
        ),
    ),
    Topic(
        "your sign-in codes",
        "I do not get the text message with the sign-in code",
        (
            "Press Try another way and pick the code from your email.",
            "Open Security, choose Phone and enter your number with the country code.",
            "Use one of the eight backup codes that you saved at sign-up.",
        ),
    ),
    Topic(
        "your address",
        "my order is going to my old address",
        (
            "Open Orders, press Change address and save it before six o'clock.",
            "Reply with the new street and postcode and we will redirect the van.",
            "Call the carrier at the number in your receipt and give the new street.",
        ),
    ),
    Topic(
        "your export",
        "the export of my contacts is empty",
        (
            "Open Contacts, select All and press Export as CSV.",
            "Turn off the filter above the list and start the export again.",
            "Choose a smaller date range, press Export and wait for the email.",
        ),
    ),
    Topic(
        "your gift card",
        "my gift card is rejected at checkout",
        (
            "Type the code without spaces and press Apply before you pay.",
            "Send us a photo of the back of the card and we will load it by hand.",
            "Open Wallet, choose Add card and scan the silver strip.",
        ),
    ),
    Topic(
        "your printer",
        "the printer is shown as offline",
        (
            "Hold the wireless button for five seconds until the blue light blinks.",
            "Open Devices, remove the printer and press Add printer.",
            "Plug the printer into the router with a cable and print a test page.",
        ),
    ),
    Topic(
        "your booking",
        "my booking shows the wrong date",
        (
            "Open Trips, choose Change date and confirm before midnight.",
            "Reply with the booking number and the right date and we will move it.",
            "Press Cancel within one day, then book the right date at no cost.",
        ),
    ),
    Topic(
        "the shared folder",
        "my team cannot open the shared folder",
        (
            "Open the folder, press Share and set the team to Can view.",
            "Ask each person to accept the invitation in their email first.",
            "Copy a fresh link from Share, then send it to the whole team.",
        ),
    ),
    Topic(
        "your calendar",
        "my calendar does not show new meetings",
        (
            "Open Calendar, choose Accounts and press Sync now.",
            "Turn on the work calendar in the list on the left side.",
            "Remove the account, add it again and wait for one minute.",
        ),
    ),
    Topic(
        "the headset",
        "the left side of my headset is silent",
        (
            "Hold both buttons for ten seconds until you hear two tones.",
            "Clean the left connector with a dry cloth and plug it in again.",
            "Fill in the form at Support, Warranty and print the free label.",
        ),
    ),
    Topic(
        "your storage",
        "my storage is full although I deleted files",
        (
            "Open Trash, select All and press Delete for good.",
            "Go to Storage, sort by size and remove the old backups.",
            "Sign out on your other devices and press Refresh in Storage.",
        ),
    ),
)

SITUATIONS: tuple[str, ...] = (
    "Hello, {problem}. What should I do?",
    "Hi, {problem}, and I need it today.",
    "Since yesterday evening {problem}. Can you help?",
    "This is the second time that I write: {problem}.",
    "I have tried it on two devices and still {problem}.",
    "A friend says that it is normal, but {problem}. Is it?",
    "I leave for a trip tomorrow and {problem}. Any advice?",
    "Sorry to bother you, {problem}. Is there a way to fix it?",
)

# What the simulated raters like: the answer names the next step (a topic's sentence) and says what follows from it.
HELPFUL_OPENINGS: tuple[str, ...] = (
    "Here is what to do next about {noun}.",
    "We can fix {noun} in one step.",
    "Good news, {noun} can be fixed now.",
    "Let us solve {noun} right away.",
    "This works for {noun}.",
    "You can fix {noun} yourself.",
)
HELPFUL_ENDINGS: tuple[str, ...] = (
    "It takes about two minutes.",
    "You will see the change at once.",
    "If it still fails, reply here with a screenshot.",
    "That solves it for nearly everyone.",
    "Then reload the page once.",
    "After that, everything works as before.",
    "Reply with the result and we will check it today.",
    "You will get an email when it is done.",
)

# What they dislike: sympathy and waiting, and nothing that a person could do.
EVASIVE_OPENINGS: tuple[str, ...] = (
    "We are very sorry to hear about {noun}.",
    "We apologise for the trouble with {noun}.",
    "Thank you for writing about {noun}.",
    "We understand how annoying {noun} can be.",
    "Many people have asked us about {noun}.",
    "Problems with {noun} are never pleasant.",
)
EVASIVE_MIDDLES: tuple[str, ...] = (
    "Unfortunately this can happen from time to time, for reasons we do not know.",
    "Our team is aware of such things and is always working hard.",
    "We cannot say much about single cases, so please be patient with us.",
    "There may be several causes, and it is difficult to tell.",
    "Another department is responsible for questions of this kind, not this chat.",
    "Perhaps it will go away without any action.",
    "We take every message seriously and value your time.",
    "Things like this depend on factors outside of our control, sadly.",
    "You may want to look somewhere in the general help pages.",
    "At present there is nothing more that we are able to tell you.",
)
EVASIVE_ENDINGS: tuple[str, ...] = (
    "We hope for your understanding.",
    "Thank you for your patience.",
    "Have a wonderful day.",
    "We wish you all the best.",
    "Your satisfaction matters to us.",
    "Please accept our apologies once more.",
    "We are grateful for your loyalty over the years.",
    "Sorry again for any inconvenience caused.",
)


def everything() -> Iterator[str]:
    """Every phrase once, with nothing filled in."""
    for topic in TOPICS:
        yield from (topic.noun, topic.problem, *topic.steps)
    helpful, evasive = (HELPFUL_OPENINGS, HELPFUL_ENDINGS), (EVASIVE_OPENINGS, EVASIVE_MIDDLES, EVASIVE_ENDINGS)
    for phrase in chain(SITUATIONS, *helpful, *evasive):
        yield phrase.format(noun="", problem="")

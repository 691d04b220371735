"""What an agent has to learn from, counted by the database: a few aggregates over indexes, however many answers there are.

Of more than REWARDED rewarded answers and RATINGS ratings only so many are looked at, so that the time stays under a second.
Rows are never read here; so equal texts, which only reading finds, are not known. As in rows, an answer that broke off is
neither good nor better than another."""

from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Q

from rl.models import Agent, Trace
from rl.models.traces import ended_by_itself, may_be_used

REWARDED = 50_000
"""Rewarded answers that are looked at, by their prompt's key."""
RATINGS = 20_000
"""Ratings that are looked at, the newest first."""
PAIRS_PER_PROMPT = 5
"""The default of DataOptions."""


@dataclass(frozen=True, slots=True)
class Figures:
    traces: int
    # of the ratings that were looked at
    ratings: int
    rated_prompts: int
    good: int
    """Answers whose mean rating is above the middle."""
    bad: int
    rated_and_rewarded: int
    """Those of the good and the bad answers that have a reward too."""
    rated_and_proposed: int
    rated_pairs: int
    """Liked against disliked answers to one prompt, at most PAIRS_PER_PROMPT."""
    one_sided_prompts: int
    """Prompts whose answers were all liked, or all disliked."""
    judged_alone: int
    """Good and bad answers to these prompts."""
    good_alone: int
    undecided: int
    """Ratings of answers whose mean rating is in the middle, that have no text, or that are liked and broke off."""
    unpaired: int
    """Rated answers without a reward that are in none of these pairs."""
    paired_and_rewarded: int
    """Rated answers with a reward that are in one of these pairs, were there no limit."""
    lowest_rating: int
    """The mean of its raters for an answer with text, in thousandths."""
    highest_rating: int
    # of the rewarded answers that were looked at
    rewarded: int
    rewarded_good: int
    """From the agent's threshold on."""
    differing_prompts: int
    """Prompts with answers whose rewards differ."""
    equal_prompts: int
    single_prompts: int
    """Prompts with one rewarded answer."""
    undiffering: int
    """Rewarded answers to prompts whose rewards do not differ."""
    lowest_reward: int
    """In thousandths."""
    highest_reward: int
    # all of them
    picks: int
    """Side-by-side picks that have a winner."""
    both_bad: int
    """Side-by-side picks that found both answers bad."""
    corrections: int
    """Answers that somebody edited."""
    several_raters: int
    """1 where the newest RATINGS pieces of feedback are of more than one rater, else 0."""
    proposed: int
    """Labels that a model proposed and that are sure enough."""
    proposed_good: int

    @property
    def judged(self) -> int:
        """Answers that people found good or bad."""
        return self.good + self.bad + 2 * self.both_bad

    @property
    def scores_differ(self) -> bool:
        """Those of answers that stand alone: a rating goes before a reward."""
        scores = {self.lowest_rating, self.highest_rating} if self.ratings else set()
        if self.rewarded > self.rated_and_rewarded:
            scores |= {self.lowest_reward, self.highest_reward}
        return len(scores) > 1

    @property
    def all_ratings_seen(self) -> bool:
        return self.ratings < RATINGS

    @property
    def all_rewards_seen(self) -> bool:
        return self.rewarded < REWARDED


def figures(agent: Agent) -> Figures:
    threshold, proposed = agent.label_threshold, {"proposed": 0, "proposed_good": 0}
    sure = 2.0  # no proposal is more than certain: without a threshold none counts
    if agent.auto_label_threshold is not None:
        sure = agent.auto_label_threshold
        proposed = _row(_PROPOSED, agent.pk, sure)
    used, (ended, of_ended) = may_be_used(), condition_sql(ended_by_itself())
    answers, of_answers = condition_sql(used)
    whole, of_whole = condition_sql(used & ended_by_itself())
    rated = _RATED.format(ended=ended, used=answers)
    return Figures(
        **_row("SELECT count(*) AS traces FROM rl_trace WHERE agent_id = %s", agent.pk),
        **_row(rated, PAIRS_PER_PROMPT, PAIRS_PER_PROMPT, *of_ended, agent.pk, RATINGS, *of_answers, sure),
        **_row(_REWARDED.format(whole=whole), threshold, *of_whole, agent.pk, REWARDED),
        **_row(_DIRECT.format(whole=whole), *of_whole, agent.pk),
        **_row(_RATERS, agent.pk, RATINGS),
        **proposed,
    )


def condition_sql(condition: Q) -> tuple[str, tuple[Any, ...]]:
    """SQL of what is asked of ``rl_trace``, with its parameters."""
    query = Trace.objects.filter(condition).query
    sql, parameters = query.get_compiler(connection=connection).compile(query.where)
    return sql, tuple(parameters)


def _row(query: str, *parameters: Any) -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        names = [column[0] for column in cursor.description]
        return {name: int(value or 0) for name, value in zip(names, cursor.fetchone(), strict=True)}


# Votes decide what is liked, as for pairs; the mean decides what is good, as for labels. Conditions on feedback are
# written like those of its partial index.
_RATED = """
SELECT sum(ratings) AS ratings, count(*) AS rated_prompts, sum(good) AS good, sum(bad) AS bad,
       sum(rewarded) AS rated_and_rewarded, sum(proposed) AS rated_and_proposed,
       sum(CASE WHEN liked * disliked < %s THEN liked * disliked ELSE %s END) AS rated_pairs,
       sum(CASE WHEN (liked = 0) <> (disliked = 0) THEN 1 ELSE 0 END) AS one_sided_prompts,
       sum(CASE WHEN liked = 0 OR disliked = 0 THEN good + bad ELSE 0 END) AS judged_alone,
       sum(CASE WHEN liked = 0 OR disliked = 0 THEN good ELSE 0 END) AS good_alone,
       sum(undecided) AS undecided,
       sum(CASE WHEN liked * disliked > 0 THEN unrewarded - decided_unrewarded ELSE unrewarded END) AS unpaired,
       sum(CASE WHEN liked * disliked > 0 THEN decided_rewarded ELSE 0 END) AS paired_and_rewarded,
       round(1000 * min(low)) AS lowest_rating, round(1000 * max(high)) AS highest_rating
FROM (
    SELECT prompt_key, sum(ratings) AS ratings,
           min(CASE WHEN usable THEN mean END) AS low, max(CASE WHEN usable THEN mean END) AS high,
           sum(CASE WHEN usable AND up > down THEN 1 ELSE 0 END) AS liked,
           sum(CASE WHEN usable AND down > up THEN 1 ELSE 0 END) AS disliked,
           sum(CASE WHEN usable AND mean <> 0.5 THEN 0 ELSE ratings END) AS undecided,
           sum(CASE WHEN usable AND mean > 0.5 THEN 1 ELSE 0 END) AS good,
           sum(CASE WHEN usable AND mean < 0.5 THEN 1 ELSE 0 END) AS bad,
           sum(CASE WHEN usable AND mean <> 0.5 AND reward IS NOT NULL THEN 1 ELSE 0 END) AS rewarded,
           sum(CASE WHEN mean <> 0.5 AND proposal IS NOT NULL THEN 1 ELSE 0 END) AS proposed,
           sum(CASE WHEN usable AND reward IS NULL THEN 1 ELSE 0 END) AS unrewarded,
           sum(CASE WHEN usable AND up <> down AND reward IS NULL THEN 1 ELSE 0 END) AS decided_unrewarded,
           sum(CASE WHEN usable AND up <> down AND reward IS NOT NULL THEN 1 ELSE 0 END) AS decided_rewarded
    FROM (
        SELECT a.*, rl_trace.prompt_key, rl_trace.reward, p.trace_id AS proposal,
               rl_trace.response <> '' AND (a.mean < 0.5 OR {ended}) AS usable
        FROM (
            SELECT trace_id, count(*) AS ratings, avg(value) AS mean,
                   sum(CASE WHEN value > 0.5 THEN 1 ELSE 0 END) AS up,
                   sum(CASE WHEN value < 0.5 THEN 1 ELSE 0 END) AS down
            FROM (
                SELECT trace_id, value FROM rl_feedback
                WHERE agent_id = %s AND is_current AND NOT (kind = 'retraction') AND kind = 'rating'
                ORDER BY created_at DESC, id LIMIT %s
            ) newest
            GROUP BY trace_id
        ) a
        JOIN rl_trace ON rl_trace.id = a.trace_id AND {used}
        LEFT JOIN rl_labelproposal p ON p.trace_id = a.trace_id AND p.confidence >= %s
    ) answers
    GROUP BY prompt_key
) by_prompt
"""

_REWARDED = """
SELECT sum(rewarded) AS rewarded, sum(good) AS rewarded_good,
       sum(CASE WHEN high - low > 5e-7 THEN 1 ELSE 0 END) AS differing_prompts,
       sum(CASE WHEN high - low <= 5e-7 AND rewarded > 1 THEN 1 ELSE 0 END) AS equal_prompts,
       sum(CASE WHEN rewarded = 1 THEN 1 ELSE 0 END) AS single_prompts,
       sum(CASE WHEN high - low <= 5e-7 THEN rewarded ELSE 0 END) AS undiffering,
       round(1000 * min(low)) AS lowest_reward, round(1000 * max(high)) AS highest_reward
FROM (
    SELECT count(*) AS rewarded, min(reward) AS low, max(reward) AS high,
           sum(CASE WHEN reward >= %s THEN 1 ELSE 0 END) AS good
    FROM (
        SELECT prompt_key, reward, response <> '' AND {whole} AS usable FROM rl_trace
        WHERE agent_id = %s AND reward IS NOT NULL
        ORDER BY prompt_key LIMIT %s
    ) first_ones
    WHERE usable
    GROUP BY prompt_key
) by_prompt
"""

# Its condition is that of a partial index: ratings, of which there may be millions, are not looked at.
_DIRECT = """
SELECT sum(CASE WHEN kind = 'comparison' AND rl_trace.id IS NOT NULL THEN 1 ELSE 0 END) AS picks,
       sum(CASE WHEN kind = 'comparison' AND choice = 'both_bad' THEN 1 ELSE 0 END) AS both_bad,
       count(DISTINCT CASE WHEN kind = 'correction' THEN trace_id END) AS corrections
FROM rl_feedback f
LEFT JOIN rl_trace ON rl_trace.id = CASE choice WHEN 'left' THEN trace_id WHEN 'right' THEN other_trace_id END AND {whole}
WHERE f.agent_id = %s AND is_current AND (kind = 'comparison' OR kind = 'correction')
"""

_RATERS = """
SELECT CASE WHEN min(rater) <> max(rater) THEN 1 ELSE 0 END AS several_raters
FROM (
    SELECT rater FROM rl_feedback WHERE agent_id = %s AND is_current AND NOT (kind = 'retraction')
    ORDER BY created_at DESC, id LIMIT %s
) newest
"""

_PROPOSED = """
SELECT count(*) AS proposed, sum(CASE WHEN p.good THEN 1 ELSE 0 END) AS proposed_good
FROM rl_labelproposal p JOIN rl_labelmodel m ON m.id = p.label_model_id
WHERE m.agent_id = %s AND p.confidence >= %s
"""

"""Statistics of people who rate: how far they agree, who can be relied on, who cannot be a person, which version wins.

- ``agreement``: percent agreement, Cohen's kappa, Krippendorff's alpha, the bias to the left
- ``dawid_skene``: the likely truth of items with several votes, and how often each rater is right
- ``bradley_terry``: strengths of versions out of comparisons, with intervals
- ``bursts``: what no person does by hand

Imports: base."""

"""Ten scored answers in the shape of N3's own."""

from typing import Any

_ANSWERS = (
    ("Which river flows through Vienna?", "The Danube.", 0.9),
    ("What is 7 times 8?", "56.", 1.0),
    ("Explain inflation.", "It is about prices.", 0.3),
    ("How far away is the Moon?", "About 384,000 kilometres.", 0.95),
    ("Who painted Guernica?", "Pablo Picasso.", 1.0),
    ("Which is the smallest planet?", "Mercury.", 0.9),
    ("How do boats float?", "They are light.", 0.2),
    ("What is RNA?", "A molecule that carries instructions for making proteins.", 0.8),
    ("Name three rivers.", "Nile, Rhine, Ganges.", 1.0),
    ("What causes wind?", "Differences in air pressure.", 0.7),
)
FEEDBACKS: list[dict[str, Any]] = [
    {"prompt": prompt, "response": response, "score": score, "run_id": f"run_{number}", "notes": ""}
    for number, (prompt, response, score) in enumerate(_ANSWERS)
]

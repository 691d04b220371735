"""An answer that follows some work: in no thread where the front awaits it, at once where the site is served without."""

import asyncio
import json

from django.test import RequestFactory

from rl.web.front.answers import PASSES_ON, when_done


def test_the_front_awaits_the_work_and_then_reads_what_came_of_it() -> None:
    done: list[str] = []

    async def work() -> bool:
        done.append("work")
        return True

    request = RequestFactory().get("/")
    assert json.loads(when_done(request, work, lambda: {"done": done}).content) == {"done": ["work"]}
    request.META[PASSES_ON] = True
    later = when_done(request, work, lambda: {"done": done}).later
    assert done == ["work"]
    assert asyncio.run(later.work()) is True
    assert later.render() == (200, b'{"done": ["work", "work"]}')

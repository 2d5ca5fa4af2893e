"""Turns: several together or one alone, without Ray."""

import asyncio

from mulo_ray.workers.turns import Turns


def test_slots_are_distinct_and_one_alone_meets_nobody() -> None:
    log: list[tuple[str, int]] = []
    active = 0
    most = 0

    async def together(turns: Turns) -> None:
        nonlocal active, most
        async with turns.together() as slot:
            active, most = active + 1, max(most, active + 1)
            log.append(("slot", slot))
            await asyncio.sleep(0.001)
            active -= 1

    async def alone(turns: Turns) -> None:
        async with turns.alone():
            assert active == 0, "somebody decodes beside the suspect"
            await asyncio.sleep(0.002)
            assert active == 0

    async def all_of_them() -> None:
        turns = Turns(3)
        work = [together(turns) for _ in range(9)]
        work[2:2] = [alone(turns), alone(turns)]
        await asyncio.gather(*work)

    asyncio.run(asyncio.wait_for(all_of_them(), 10))
    assert most == 3
    assert {slot for _, slot in log} == {0, 1, 2}

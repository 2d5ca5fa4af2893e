"""Turns: several together or one alone, without Ray."""

import asyncio

from mulo_ray.workers.turns import Turns


def test_slots_are_distinct_and_one_alone_meets_nobody() -> None:
    log: list[tuple[str, int]] = []
    active = 0
    most = 0

    async def together(turns: Turns) -> None:
        nonlocal active, most
        async with turns.together() as turn:
            active, most = active + 1, max(most, active + 1)
            log.append(("slot", turn.slot))
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


def test_a_slot_given_back_early_is_handed_out_but_its_work_still_keeps_others_from_being_alone() -> None:
    async def scene() -> None:
        turns = Turns(1)
        order: list[str] = []

        async def lonely() -> None:
            async with turns.alone():
                order.append("alone")

        async with turns.together() as first:
            await first.free()
            async with turns.together() as second:
                assert second.slot == first.slot
                waiting = asyncio.create_task(lonely())
                await asyncio.sleep(0)
                order.append("second ends")
            await asyncio.sleep(0)
            order.append("first ends")
        await waiting
        assert order == ["second ends", "first ends", "alone"]
        async with turns.together() as again:
            assert again.slot == 0
        assert turns._slots == [0]

    asyncio.run(asyncio.wait_for(scene(), 10))

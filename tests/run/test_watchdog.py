"""The state machine of the watchdog, with looks and times made up."""

from nccldoctor.collect.states import Announcer, sentence
from nccldoctor.collect.watchdog import Gpu, Limits, Look, State, Watchdog, culprits

LIMITS = Limits(skewed=45, symmetric=90, init=300, busy=600)


def at(rank, count, **more):
    return Look(rank=rank, stage="group", counters={"0": count}, **more)


def watched(looks_at, seconds, expected=2, limits=LIMITS):
    """The verdicts of a watchdog that looks once a second."""
    watchdog = Watchdog(limits, expected)
    return [watchdog.observe(float(second), looks_at(second)) for second in range(seconds)]


def first_hang(verdicts):
    return next((i for i, v in enumerate(verdicts) if v.state.hung), None)


def test_progress_is_running():
    verdicts = watched(lambda s: [at(0, s), at(1, s)], 200)
    assert {v.state for v in verdicts} == {State.RUNNING}


def test_a_rank_behind_is_found_within_a_minute():
    verdicts = watched(lambda s: [at(0, min(s, 11), waiting=True), at(1, min(s, 10))], 120)
    assert first_hang(verdicts) == 11 + 45
    assert verdicts[-1].state is State.SKEWED
    assert (verdicts[-1].behind, verdicts[-1].waiting) == ((1,), (0,))


def test_all_ranks_waiting_are_found_within_two_minutes():
    verdicts = watched(lambda s: [at(0, 5, waiting=True), at(1, 5, waiting=True)], 120)
    assert first_hang(verdicts) == 90
    assert verdicts[-1].state is State.SYMMETRIC
    assert verdicts[-1].behind == ()


def test_a_rank_that_saves_gets_more_time():
    def looks(second):
        return [at(0, 6, waiting=True), at(1, 5, phase="checkpointing")]

    verdicts = watched(looks, 640)
    assert verdicts[100].state is State.CHECKPOINTING
    assert first_hang(verdicts) == 600


def test_a_rank_that_computes_gets_more_time():
    def looks(second):
        return [at(0, 6, waiting=True), at(1, 5, moving=second, cpu_seconds=float(second))]

    verdicts = watched(looks, 620)
    assert verdicts[100].state is State.SLOW
    assert first_hang(verdicts) == 600
    assert verdicts[-1].works


def test_sends_and_receives_alone_are_no_hang():
    """They move no counter, but the main thread is found in another place at nearly every look."""

    def looks(second):
        return [at(0, 5, moving=second, waiting=True), at(1, 5, moving=-second, waiting=True)]

    assert first_hang(watched(looks, 300)) is None


def test_a_data_loader_that_asks_again_every_five_seconds_is_no_work():
    def looks(second):
        return [at(0, 6, waiting=True), at(1, 5, moving=second // 5)]

    verdicts = watched(looks, 60)
    assert first_hang(verdicts) == 45
    assert not verdicts[-1].works


def test_spinning_in_a_device_wait_is_no_work():
    def looks(second):
        spins = {"cpu_seconds": float(second), "spins": True, "waiting": True}
        return [at(0, 5, **spins), at(1, 5, **spins)]

    assert first_hang(watched(looks, 120)) == 90


def test_a_long_queue_on_the_device_is_progress():
    def looks(second):
        return [at(0, 500, completed=second, waiting=True), at(1, 500, completed=second)]

    assert first_hang(watched(looks, 300)) is None


def test_a_stopped_rank_does_not_count_as_working():
    def looks(second):
        stopped = at(1, 5, silent=float(second), process_state="T")
        return [at(0, 6, waiting=True), stopped]

    assert first_hang(watched(looks, 60)) == 45


def test_output_of_the_culprit_is_a_sign_of_life():
    verdicts = watched(lambda s: [at(0, 6, waiting=True), at(1, 5, output_bytes=s)], 120)
    assert first_hang(verdicts) is None


def test_set_up_hangs_after_its_own_limit():
    def looks(second):
        return [Look(rank=0, stage="torch", phase="initialising"), Look(rank=1, stage="torch")]

    verdicts = watched(looks, 310)
    assert first_hang(verdicts) == 300
    assert verdicts[-1].state is State.INIT
    assert verdicts[-1].behind == (1,)


def test_a_script_without_process_groups_is_never_hung():
    verdicts = watched(lambda s: [Look(rank=0, stage="torch")], 1000, expected=1)
    assert {v.state for v in verdicts} == {State.STARTING}


def test_a_rank_that_fell_silent_before_it_told_of_its_groups_is_behind():
    def looks(second):
        mute = Look(rank=1, stage="torch", silent=float(second), process_state="T")
        return [at(0, 3, waiting=True), mute]

    verdicts = watched(looks, 60)
    assert verdicts[-1].state is State.SKEWED
    assert verdicts[-1].behind == (1,)


def test_the_rank_that_explains_the_others_is_the_culprit():
    """Ranks 2 and 3 share a group of their own; 3 skips its call there, so 2 is late for rank 0."""
    looks = {
        0: Look(0, "group", {"world": 5, "a": 9, "left": 8}),
        1: Look(1, "group", {"world": 5, "a": 9, "right": 8}),
        2: Look(2, "group", {"world": 5, "b": 9, "left": 7}),
        3: Look(3, "group", {"world": 5, "b": 8, "right": 7}),
    }
    assert culprits(looks) == (3,)


def test_in_a_cycle_all_are_named():
    looks = {0: Look(0, "group", {"a": 2, "b": 1}), 1: Look(1, "group", {"a": 1, "b": 2})}
    assert culprits(looks) == (0, 1)


def test_a_gpu_that_works_delays_the_alarm_and_one_that_spins_does_not():
    def looks(second, gpu):
        return [at(0, 6, waiting=True), at(1, 5, waiting=True, gpu=gpu)]

    assert first_hang(watched(lambda s: looks(s, Gpu.WORKING), 620)) == 600
    spinning = watched(lambda s: looks(s, Gpu.SPINNING), 60)
    assert first_hang(spinning) == 45
    assert spinning[-1].spinning == (1,)
    assert "the GPU of rank 1 spins" in sentence(spinning[-1])


def test_one_reading_of_a_gpu_is_not_enough():
    def looks(second):
        gpu = Gpu.WORKING if second % 3 == 0 else None
        return [at(0, 6, waiting=True), at(1, 5, waiting=True, gpu=gpu)]

    assert first_hang(watched(looks, 60)) == 45


def test_a_checkpoint_that_does_not_move_is_a_hang_in_the_end():
    """Written to a filesystem that does not answer: nothing moves, and the job may be ended."""

    def looks(second):
        return [
            at(0, 6, waiting=True),
            at(1, 5, phase="checkpointing", place="train.py:40 in save"),
        ]

    last = watched(looks, 640)[-1]
    assert last.state.hung and not last.works
    assert "rank 1 saves or loads a checkpoint (train.py:40 in save)" in sentence(last)


def announced(looks_at, seconds):
    """(second, line) of everything that is said."""
    announcer = Announcer(LIMITS.busy)
    lines = [announcer.line(verdict, 2) for verdict in watched(looks_at, seconds)]
    return [(second, line) for second, line in enumerate(lines) if line]


def test_states_are_said_once_and_seldom_again():
    def looks(second):
        if second > 100:
            return [at(0, second), at(1, second)]
        return [at(0, 6, waiting=True), at(1, 5, phase="checkpointing", place="a.py:4")]

    said = announced(looks, 140)
    assert [second for second, _ in said] == [0, 10, 40, 101]
    assert said[0][1] == "running: process groups are set up on 2 ranks of this host"
    assert said[1][1].startswith(
        "rank 1 saves or loads a checkpoint (a.py:4); no collective for 10 s"
    )
    assert said[-1][1] == "running again after 40 s"


def test_a_slow_start_is_said():
    def looks(second):
        return [Look(rank=0, stage="torch", phase="initialising"), Look(rank=1, stage="torch")]

    said = announced(looks, 60)
    assert said[0] == (10, "starting: rank 0 set up process groups for 10 s; rank 1 not there yet")
    assert len(said) == 2


def test_an_interpreter_on_its_way_out_is_given_time():
    quick = Limits(skewed=4, symmetric=6)
    gone = watched(lambda s: [at(0, 5, leaving=True), at(1, 5, leaving=True)], 60, limits=quick)
    assert first_hang(gone) == 50
    assert first_hang(watched(lambda s: [at(0, 5), at(1, 5, leaving=True)], 120)) == 90

"""The state machine: the actions of users, workers, time and failures on executions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import wraps
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
)
from hypothesis.stateful import rule as hypothesis_rule

from tests.stateful.model import Model
from tests.stateful.planner import IMPOSSIBLE
from tests.stateful.plans import plans, policies, tasks
from tests.stateful.workers import Sleeper, at_point, dies_at
from tests.stateful.world import OpenHold, World

picks = st.integers(0, 1_000)
moves = st.sampled_from([1, 2, 3, 5, 8, 12])
points = st.sampled_from([1, 2, 3, 4, 5, 7])
edits = st.sampled_from(["none", "none", "value", "value", "null"])
MAX_LIVE, MAX_EXECUTIONS = 3, 8


def rule(**strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    """hypothesis.stateful.rule, with a count of the steps that are made."""

    def decorate(step: Callable[..., None]) -> Any:
        @wraps(step)
        def counted(self: Executions, **drawn: Any) -> None:
            type(self).steps += 1
            step(self, **drawn)

        return hypothesis_rule(**strategies)(counted)

    return decorate


def pick_from(models: list[Model], number: int) -> Model:
    return models[number % len(models)]


class Executions(RuleBasedStateMachine):
    """`make_world` opens a world for one example."""

    make_world: Callable[[], World]
    #: Histories begun and steps made, for the line that says what was played.
    histories = 0
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).histories += 1
        self.world = type(self).make_world()
        self.sleeper: Sleeper | None = None
        self.numbers = itertools.count()

    def pick(self, number: int) -> Model:
        """An execution, mostly one that has not ended."""
        live = [model for model in self.world.models if not model.final]
        pool = live if live and number % 8 else self.world.models
        return pick_from(pool, number)

    def working(self) -> list[Model]:
        """Those that have work: not ended, and nobody is asked."""
        return [model for model in self.world.models if not model.final and not model.open]

    def held(self) -> list[Model]:
        """Those that wait for a person."""
        return [
            model
            for model in self.world.models
            if any(hold.decider == "human" for hold in model.open.values())
        ]

    def has_room(self) -> bool:
        live = [model for model in self.world.models if not model.final]
        return len(live) < MAX_LIVE and len(self.world.models) < MAX_EXECUTIONS

    def hold(self, model: Model, number: int) -> OpenHold | None:
        holds = self.world.open_holds(model)
        return holds[number % len(holds)] if holds else None

    # --- beginnings -----------------------------------------------------------------------------

    @initialize(plan=plans(), policy=policies())
    def first(self, plan: dict[str, Any], policy: dict[str, Any]) -> None:
        self.world.start(plan, policy)

    @precondition(lambda self: self.has_room())
    @rule(plan=plans(), policy=policies())
    def start(self, plan: dict[str, Any], policy: dict[str, Any]) -> None:
        self.world.start(plan, policy)

    @precondition(lambda self: self.has_room())
    @rule(number=picks, which=picks)
    def fork(self, number: int, which: int) -> None:
        model = self.pick(number)
        self.world.sync(model)
        found = self.world.checkpoints(model)
        if found:
            self.world.fork(model, found[which % len(found)])

    # --- workers --------------------------------------------------------------------------------

    @precondition(lambda self: self.working())
    @rule(number=picks, moves=moves)
    def work(self, number: int, moves: int) -> None:
        model = pick_from(self.working(), number)
        held, fence = self.world.is_held(model), self._fence(model)
        self.world.work(model.id, moves)
        self.world.sync(model)
        assert not held or self._fence(model) == fence, "two workers hold one execution"

    @rule(number=picks)
    def work_to_the_next_rest(self, number: int) -> None:
        model = self.pick(number)
        self.world.work_to_rest(model)
        self.world.sync(model)

    @rule(number=picks, times=st.integers(2, 3))
    def redeliver(self, number: int, times: int) -> None:
        """The same job again: at rest nobody does anything."""
        model = self.pick(number)
        self.world.work_to_rest(model)
        self.world.sync(model)
        before = model.seen
        for _ in range(times):
            self.world.work_to_rest(model)
        self.world.sync(model)
        assert model.seen == before

    @precondition(lambda self: self.working())
    @rule(number=picks, moves=moves, nth=points)
    def work_and_die(self, number: int, moves: int, nth: int) -> None:
        model = pick_from(self.working(), number)
        died = dies_at(nth, lambda: self.world.work(model.id, moves))
        note(f"died: {died}")
        self.world.sync(model)

    @precondition(lambda self: self.sleeper is None and self.working())
    @rule(number=picks, moves=moves, nth=st.integers(1, 6))
    def fall_asleep(self, number: int, moves: int, nth: int) -> None:
        sleeper = self.world.sleeper(pick_from(self.working(), number))
        if sleeper.fall_asleep(moves, nth):
            self.sleeper = sleeper

    @precondition(lambda self: self.sleeper is not None)
    @rule()
    def wake_up(self) -> None:
        """A worker that slept while another one took over lands nothing."""
        assert self.sleeper is not None
        sleeper, self.sleeper = self.sleeper, None
        self.world.sync()
        (model,) = (each for each in self.world.models if each.id == sleeper.execution_id)
        before, overtaken = model.seen, self._fence(model) != sleeper.fence
        sleeper.wake()
        self.world.sync(model)
        if overtaken:
            assert model.seen == before, "a stale worker landed something"

    @precondition(lambda self: self.sleeper is not None)
    @rule(how=st.sampled_from(["worker", "dying worker", "command", "claim"]), nth=points)
    def sleep_too_long(self, how: str, nth: int) -> None:
        """The sleeper's lease runs out, somebody else acts, then it wakes up."""
        assert self.sleeper is not None
        (model,) = (each for each in self.world.models if each.id == self.sleeper.execution_id)
        self.world.let_time_pass(model)
        match how:
            case "worker":
                self.world.work(model.id, nth)
            case "dying worker":
                dies_at(nth, lambda: self.world.work(model.id, 12))
            case "claim":
                dies_at(1, lambda: self.world.work(model.id, 1))
            case "command":
                data = {"kind": "update_state", "updates": {f"k{next(self.numbers)}": 1}}
                self.world.command(model, data)
        self.wake_up()

    def _fence(self, model: Model) -> int:
        return self.world.fence_of(model.id)

    # --- work ahead -----------------------------------------------------------------------------

    @precondition(lambda self: self.world.speculates)
    @rule(number=picks)
    def speculate(self, number: int) -> None:
        """Nothing of it is to be seen in the execution."""
        model = self.pick(number)
        self.world.sync(model)
        before = model.seen
        self.world.speculate(model)
        self.world.sync(model)
        assert model.seen == before

    @precondition(lambda self: self.world.speculates and self.held())
    @rule(number=picks, nth=points)
    def speculate_and_die(self, number: int, nth: int) -> None:
        model = pick_from(self.held(), number)
        dies_at(nth, lambda: self.world.speculate(model))
        self.world.sync(model)

    # --- time -----------------------------------------------------------------------------------

    @rule(number=picks)
    def lease_runs_out(self, number: int) -> None:
        self.world.let_time_pass(self.pick(number))

    @rule()
    def sweep(self) -> None:
        self.world.let_time_pass()
        self.world.sweep()
        self.world.sync()

    @rule(nth=points)
    def sweep_and_die(self, nth: int) -> None:
        dies_at(nth, self.world.sweep)
        self.world.sync()

    @rule(number=picks, nth=st.one_of(st.none(), points))
    def holds_expire(self, number: int, nth: int | None) -> None:
        """Time decides, once, even if the sweeper dies on the way or comes twice."""
        model = self.pick(number)
        self.world.expire_holds(model)
        if nth is not None:
            dies_at(nth, self.world.sweep)
        self.world.sweep()
        self.world.sweep()
        self.world.sync(model)

    # --- decisions ------------------------------------------------------------------------------

    @precondition(lambda self: self.held())
    @rule(
        number=picks,
        which=picks,
        approved=st.sampled_from([True, True, False]),
        edit=edits,
        who=st.sampled_from(["ann", "bob"]),
    )
    def decide(self, number: int, which: int, approved: bool, edit: str, who: str) -> None:
        model = pick_from(self.held(), number)
        hold = self.hold(model, which)
        if hold is not None:
            given = self._edits(model, hold, edit) if approved else {}
            self.world.decide(model, hold, approved=approved, who=who, **given)

    def _edits(self, model: Model, hold: OpenHold, edit: str) -> dict[str, Any]:
        """`edits`, where this answer may carry some: new inputs, or a new output."""
        self.world.sync(model)
        known = model.open[hold.pk]
        if known.reason != "node_review" or known.quorum > 1:
            return {}
        changed = f"edited {next(self.numbers)}"
        if edit == "none":
            return {}
        if known.phase == "BEFORE_EXECUTION":
            return {"edits": {"value": None if edit == "null" else changed}}
        return {"set_output_null": True} if edit == "null" else {"edits": changed}

    @precondition(lambda self: self.world.checks_edits and self.held())
    @rule(number=picks, which=picks, bad=st.sampled_from([float("nan"), "\0"]))
    def decide_with_a_bad_edit(self, number: int, which: int, bad: Any) -> None:
        model = pick_from(self.held(), number)
        hold = self.hold(model, which)
        if hold is not None:
            self.world.decide_badly(model, hold, {"value": bad})

    @precondition(lambda self: self.held())
    @rule(
        number=picks,
        which=picks,
        approved=st.sampled_from([True, True, False]),
        edit=edits,
        kind=st.sampled_from(["approval_response", "checkpoint_response"]),
    )
    def decide_by_command(
        self, number: int, which: int, approved: bool, edit: str, kind: str
    ) -> None:
        model = pick_from(self.held(), number)
        hold = self.hold(model, which)
        if hold is None:
            return

        given = self._edits(model, hold, edit) if approved else {}

        self.world.decide(model, hold, approved=approved, who="bob", kind=kind, **given)

    @precondition(lambda self: self.held())
    @rule(number=picks, which=picks, nth=points, edit=edits)
    def decide_and_die(self, number: int, which: int, nth: int, edit: str) -> None:
        """The decision and its record are both there, or neither is."""
        model = pick_from(self.held(), number)
        hold = self.hold(model, which)
        if hold is None or self.world.is_held(model):
            return

        voters = model.open[hold.pk].voters if hold.pk in model.open else set()
        who = "bob" if "ann" in voters else "ann"
        given = self._edits(model, hold, edit)
        self.world.decide(model, hold, approved=True, who=who, nth=nth, **given)
        self.world.check_records(model)

    @precondition(lambda self: self.held())
    @rule(number=picks, which=picks)
    def decide_too_late(self, number: int, which: int) -> None:
        model = pick_from(self.held(), number)
        hold = self.hold(model, which)
        if hold is not None:
            self.world.decide_too_late(model, hold)

    @precondition(lambda self: self.held())
    @rule(number=picks, which=picks, who=st.sampled_from(["ann", "bob"]), rests=st.booleans())
    def request_changes(self, number: int, which: int, who: str, rests: bool) -> None:
        """A task's output is sent back: it runs again, and is decided anew."""
        model = pick_from(self.held(), number)
        hold = self.hold(model, which)
        if hold is None or hold.changes_left == 0:
            return
        undo = {"undo_seconds": 600.0} if rests else {}
        changes = f"change {next(self.numbers)}"
        self.world.sync(model)
        if who not in model.open[hold.pk].voters:
            self.world.decide(model, hold, approved=False, who=who, changes=changes, **undo)

    @precondition(lambda self: self.held())
    @rule(
        number=picks,
        which=picks,
        approved=st.sampled_from([True, True, False]),
        edit=edits,
        who=st.sampled_from(["ann", "bob"]),
    )
    def decide_with_time_to_undo(
        self, number: int, which: int, approved: bool, edit: str, who: str
    ) -> None:
        model = pick_from(self.held(), number)
        hold = self.hold(model, which)
        if hold is not None:
            given = self._edits(model, hold, edit) if approved else {}
            self.world.decide(model, hold, approved=approved, who=who, undo_seconds=600.0, **given)

    def resting(self) -> list[tuple[Model, str]]:
        """Answers that can be taken back."""
        return [
            (model, hold_id)
            for model in self.world.models
            for hold_id, hold in model.open.items()
            if hold.resting
        ]

    @precondition(lambda self: self.resting())
    @rule(number=picks)
    def take_back(self, number: int) -> None:
        found = self.resting()
        self.world.take_back(*found[number % len(found)])

    @precondition(lambda self: self.resting())
    @rule(number=picks, nth=st.one_of(st.none(), points))
    def time_to_undo_ends(self, number: int, nth: int | None) -> None:
        """What nobody took back is carried out, once, even if the sweeper dies on the way."""
        found = self.resting()
        self.world.end_time_to_undo(found[number % len(found)][0])
        if nth is not None:
            dies_at(nth, self.world.sweep)
        self.world.sweep()
        self.world.sweep()
        self.world.sync()

    # --- commands -------------------------------------------------------------------------------

    @rule(number=picks)
    def update_state(self, number: int) -> None:
        key = f"k{next(self.numbers)}"
        self.world.command(self.pick(number), {"kind": "update_state", "updates": {key: 1}})

    @rule(number=picks)
    def two_commands_at_one_version(self, number: int) -> None:
        model = self.pick(number)
        self.world.sync(model)
        version = model.seen
        answers = []
        for _ in range(2):
            data = {"kind": "update_state", "updates": {f"k{next(self.numbers)}": 1}}
            answers.append(self.world.command(model, data, version=version))
        one_winner = ["applied", "stale"]
        assert answers in (one_winner, ["queued", "queued"], ["refused", "refused"])

    @rule(number=picks, layer=st.one_of(st.none(), st.integers(0, 4)))
    def skip_layer(self, number: int, layer: int | None) -> None:
        self.world.command(self.pick(number), {"kind": "skip_layer", "layer": layer})

    @rule(number=picks, which=picks)
    def modify_args(self, number: int, which: int) -> None:
        model = self.pick(number)
        names = sorted(model.plan.by_id)
        arguments = {"value": f"changed {next(self.numbers)}"}
        data = {"kind": "modify_args", "task_id": names[which % len(names)], "arguments": arguments}
        self.world.command(model, data)

    @rule(number=picks, data=st.data())
    def inject_task(self, number: int, data: st.DataObject) -> None:
        model = self.pick(number)
        name = f"n{next(self.numbers)}"
        task = data.draw(tasks(name, sorted(model.plan.by_id)))
        model.tried_tasks.add(name)
        self.world.command(model, {"kind": "inject_task", "task": task})

    @rule(number=picks)
    def go_on(self, number: int) -> None:
        self.world.command(self.pick(number), {"kind": "continue"})

    @rule(number=picks, possible=st.booleans())
    def replan(self, number: int, possible: bool) -> None:
        model = self.pick(number)
        name = f"r{next(self.numbers)}" if possible else IMPOSSIBLE
        model.tried_tasks.add(name)
        self.world.command(model, {"kind": "replan", "new_requirement": name})

    @rule(number=picks, rarely=st.integers(0, 4))
    def abort(self, number: int, rarely: int) -> None:
        if rarely == 0:
            self.world.command(self.pick(number), {"kind": "abort"})

    @rule(number=picks, nth=points)
    def command_and_die(self, number: int, nth: int) -> None:
        model = self.pick(number)
        key = f"k{next(self.numbers)}"
        data = {"kind": "update_state", "updates": {key: 1}}
        dies_at(nth, lambda: self.world.command(model, data))
        self.world.sync(model)

    @rule(
        number=picks,
        nth=st.integers(1, 6),
        outer=st.sampled_from(["command", "worker", "ahead"]),
        inner=st.sampled_from(["command", "worker", "ahead"]),
        late=st.booleans(),
    )
    def one_in_the_middle_of_another(
        self, number: int, nth: int, outer: str, inner: str, late: bool
    ) -> None:
        """At some point of what one does, all of what another one does; the lease may be over."""
        model = self.pick(number)

        def act(who: str) -> None:
            if who == "worker":
                self.world.work(model.id, 8)
                return
            if who == "ahead":
                self.world.speculate(model)
                return
            data = {"kind": "update_state", "updates": {f"k{next(self.numbers)}": 1}}
            self.world.command(model, data)

        def meanwhile() -> None:
            if late:
                self.world.let_time_pass(model)
            act(inner)

        with at_point(nth, meanwhile):
            act(outer)
        self.world.sync(model)

    # --- ends -----------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            if self.sleeper is not None:
                self.wake_up()
            self.world.finish()
        finally:
            self.world.close()

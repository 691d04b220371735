"""Follows the opcodes of a pickle with a stack and a memo, and builds values that have no behaviour.

No name of the file is imported and nothing of it is called: where the standard unpickler would, the machine notes in a
record what was asked for. Types that are harmless and common are rebuilt by ``rl.from_systems.toolbox.checkpoints.known``.
"""

import pickletools
from collections.abc import Callable
from typing import Any

from rl.from_systems.toolbox.checkpoints.known import call, new_object
from rl.from_systems.toolbox.checkpoints.opcodes import (
    Global,
    OpcodeRefused,
    Operations,
    Pairs,
    PickledSet,
    PickleLimits,
    Record,
    global_name,
)

_NOTHING = frozenset(("PROTO", "FRAME", "STOP"))


class Machine:
    def __init__(self, limits: PickleLimits) -> None:
        self._limits = limits
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._copied = 0

    def run(self, operations: Operations) -> Any:
        """The value that the pickle leaves. Raises OpcodeRefused; ``operations`` says where."""
        stack, allowed, deepest = self._stack, self._limits.opcodes, self._limits.stack
        for count, (name, argument) in enumerate(operations):
            if name in _PUSHED:
                stack.append(argument)
            elif name not in _NOTHING:
                _ACTIONS[name](self, argument)
            if count >= allowed:
                raise OpcodeRefused(f"more than {allowed:,} opcodes")
            if len(stack) > deepest:
                raise OpcodeRefused(f"more than {deepest:,} values wait on the stack")
        if self._marks or len(stack) != 1:
            raise OpcodeRefused(f"it leaves {len(stack)} values and {len(self._marks)} marks, and must leave one value")
        return stack[0]

    def charge(self, count: int) -> None:
        """Before that many items or characters are copied."""
        self._copied += count
        if self._copied > self._limits.copied:
            raise OpcodeRefused(f"asks for copies of more than {self._limits.copied:,} items")

    def _pop(self) -> Any:
        self._need(1)
        return self._stack.pop()

    def _need(self, count: int) -> None:
        """That many values on top, all above the last mark."""
        if len(self._stack) - (self._marks[-1] if self._marks else 0) < count:
            raise OpcodeRefused("needs a value that is not there")

    def _pop_many(self, count: int) -> list[Any]:
        self._need(count)
        values = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return values

    def _since_mark(self) -> list[Any]:
        if not self._marks:
            raise OpcodeRefused("needs a mark that is not there")
        start = self._marks.pop()
        values = self._stack[start:]
        del self._stack[start:]
        return values

    def _mark(self, _: None) -> None:
        self._marks.append(len(self._stack))
        if len(self._marks) > self._limits.stack:
            raise OpcodeRefused(f"more than {self._limits.stack:,} marks wait on the stack")

    def _drop(self, _: None) -> None:
        if self._marks and self._marks[-1] == len(self._stack):
            self._marks.pop()
        else:
            self._pop()

    def _top(self) -> Any:
        self._need(1)
        return self._stack[-1]

    def _get(self, index: int) -> None:
        if index not in self._memo:
            raise OpcodeRefused(f"the memo has nothing at {index}")
        self._stack.append(self._memo[index])

    def _put(self, index: int) -> None:
        self._need(1)
        if index >= self._limits.memo:
            raise OpcodeRefused(f"index {index} of the memo; {self._limits.memo - 1:,} is the largest")
        if index in self._memo:
            raise OpcodeRefused(f"the memo has something at {index} already")
        self._memo[index] = self._stack[-1]

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _append(self, values: list[Any]) -> None:
        target = self._top()
        if isinstance(target, Record):
            target.elements.extend(values)
        elif isinstance(target, list):
            target.extend(values)
        else:
            raise OpcodeRefused(f"appends to {_kind(target)}")

    def _set(self, values: list[Any]) -> None:
        target = self._top()
        if not isinstance(target, (Record, Pairs)):
            raise OpcodeRefused(f"sets an item of {_kind(target)}")
        pairs = target.pairs if isinstance(target, Record) else target
        pairs.items.extend(_pairs(values).items)

    def _add(self, values: list[Any]) -> None:
        target = self._top()
        if not isinstance(target, PickledSet):
            raise OpcodeRefused(f"adds to {_kind(target)}")
        target.items.extend(values)

    def _stack_global(self, _: None) -> None:
        module, name = self._pop_many(2)
        if not (isinstance(module, str) and isinstance(name, str)):
            raise OpcodeRefused("names a class by something that is not text")
        self._push(global_name(module, name))

    def _callee(self) -> tuple[Any, tuple[Any, ...]]:
        callee, arguments = self._pop_many(2)
        return callee, _tuple(arguments)

    def _object(self, _: None) -> None:
        values = self._since_mark()
        if not values:
            raise OpcodeRefused("does not name a class")
        self._push(call(values[0], tuple(values[1:]), self.charge))

    def _new_with_keywords(self, _: None) -> None:
        of, arguments, keywords = self._pop_many(3)
        if not isinstance(keywords, Pairs):
            raise OpcodeRefused("its keyword arguments are not a dict")
        record = new_object(of, _tuple(arguments), self.charge)
        self.charge(len(keywords.items))
        record.pairs.items.extend(keywords.items)
        self._push(record)

    def _build(self, _: None) -> None:
        state, target = self._pop(), self._top()
        if not isinstance(target, Record):
            raise OpcodeRefused(f"sets the state of {_kind(target)}")
        target.states.append(state)


def _tuple(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise OpcodeRefused(f"its arguments are {_kind(value)}, not a tuple")
    return value


def _pairs(values: list[Any]) -> Pairs:
    if len(values) % 2:
        raise OpcodeRefused("a key has no value")
    return Pairs(list(zip(values[::2], values[1::2], strict=True)))


def _kind(value: Any) -> str:
    known = {Pairs: "a dict", PickledSet: "a set", Global: "a class"}
    return known.get(type(value), f"a value of type {type(value).__name__}")


_ACTIONS: dict[str, Callable[[Machine, Any], object]] = {
    "NEWTRUE": lambda machine, _: machine._push(True),
    "NEWFALSE": lambda machine, _: machine._push(False),
    "EMPTY_LIST": lambda machine, _: machine._push([]),
    "LIST": lambda machine, _: machine._push(machine._since_mark()),
    "APPEND": lambda machine, _: machine._append([machine._pop()]),
    "APPENDS": lambda machine, _: machine._append(machine._since_mark()),
    "EMPTY_TUPLE": lambda machine, _: machine._push(()),
    "TUPLE": lambda machine, _: machine._push(tuple(machine._since_mark())),
    "TUPLE1": lambda machine, _: machine._push(tuple(machine._pop_many(1))),
    "TUPLE2": lambda machine, _: machine._push(tuple(machine._pop_many(2))),
    "TUPLE3": lambda machine, _: machine._push(tuple(machine._pop_many(3))),
    "EMPTY_DICT": lambda machine, _: machine._push(Pairs()),
    "DICT": lambda machine, _: machine._push(_pairs(machine._since_mark())),
    "SETITEM": lambda machine, _: machine._set(machine._pop_many(2)),
    "SETITEMS": lambda machine, _: machine._set(machine._since_mark()),
    "EMPTY_SET": lambda machine, _: machine._push(PickledSet()),
    "ADDITEMS": lambda machine, _: machine._add(machine._since_mark()),
    "FROZENSET": lambda machine, _: machine._push(PickledSet(machine._since_mark())),
    "POP": Machine._drop,
    "DUP": lambda machine, _: machine._push(machine._top()),
    "MARK": Machine._mark,
    "POP_MARK": lambda machine, _: machine._since_mark(),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Machine._get),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), Machine._put),
    "MEMOIZE": lambda machine, _: machine._put(len(machine._memo)),
    "STACK_GLOBAL": Machine._stack_global,
    "REDUCE": lambda machine, _: machine._push(call(*machine._callee(), machine.charge)),
    "BUILD": Machine._build,
    "INST": lambda machine, of: machine._push(call(of, tuple(machine._since_mark()), machine.charge)),
    "OBJ": Machine._object,
    "NEWOBJ": lambda machine, _: machine._push(new_object(*machine._callee(), machine.charge)),
    "NEWOBJ_EX": Machine._new_with_keywords,
}
_PUSHED = {code.name for code in pickletools.opcodes if code.proto <= 5 and not code.stack_before and code.stack_after}
_PUSHED -= _ACTIONS.keys()
"""They leave their argument on the stack."""

"""Puts an observed function in the place of another, for one object, and back.

A method that a class defines is observed in the class, for the objects that were hooked and no other: the object
itself stays as it is, so it can be copied, pickled and compared, may have ``__slots__``, and ``__call__`` works too. A
function that the object, a mapping or a list holds is replaced there."""

import inspect
import threading
import weakref
from collections.abc import Callable
from functools import cache, partial
from typing import Any, cast

from rl.base.errors import UsageError
from rl.collect.capture.following import Begin, Observer, observe

_MISSING = object()
_LAYER = "_ratchet_layer"
_lock = threading.RLock()


class Slot:
    """A place where a function is found: in ``owner`` under a name, or as an item."""

    def __init__(self, owner: Any, name: Any) -> None:
        self.owner, self.name = owner, name

    def get(self) -> Any:
        """The function that is there; ``_MISSING`` if there is none."""

    def put(self, value: Any) -> None: ...

    def remove(self) -> None: ...


class InClass(Slot):
    def get(self) -> Any:
        return vars(self.owner).get(self.name, _MISSING)

    def put(self, value: Any) -> None:
        setattr(self.owner, self.name, value)

    def remove(self) -> None:
        delattr(self.owner, self.name)


class InMapping(Slot):
    """Also the ``__dict__`` of an object."""

    def get(self) -> Any:
        return self.owner.get(self.name, _MISSING)

    def put(self, value: Any) -> None:
        self.owner[self.name] = value

    def remove(self) -> None:
        del self.owner[self.name]


class InList(Slot):
    """``name`` is the item itself, wherever it is moved to."""

    def get(self) -> Any:
        return next((item for item in self.owner if item is self.name), _MISSING)

    def put(self, value: Any) -> None:
        index = next(index for index, item in enumerate(self.owner) if item is self.name)
        self.owner[index] = self.name = value


class Layer:
    """One observed function. ``key`` says who observes: the same key is not put on top of itself."""

    def __init__(self, slot: Slot, key: object, function: Callable[..., Any]) -> None:
        self.slot, self.key, self.before = slot, key, slot.get()
        self.observers: dict[int, Begin] = {}
        """By the id of the object; 0 where the place belongs to one object."""
        self.users: dict[int, int] = {}
        self.owners: dict[int, object] = {}
        self.wrapper = observe(function, self._begin_for_method if isinstance(slot, InClass) else self._begin)
        setattr(self.wrapper, _LAYER, self)
        slot.put(self.wrapper)

    def _begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Observer | None:
        begin = self.observers.get(0)
        return begin(args, kwargs) if begin else None

    def _begin_for_method(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Observer | None:
        begin = self.observers.get(id(args[0])) if args else None
        return begin(args[1:], kwargs) if begin else None

    def add(self, target: int, begin: Begin) -> None:
        self.users[target] = self.users.get(target, 0) + 1
        self.observers.setdefault(target, begin)

    def watch(self, owner: object) -> None:
        """An object that is gone leaves its id to another."""
        target = id(owner)
        try:
            self.owners.setdefault(target, weakref.ref(owner, lambda _: self.forget(target)))
        except TypeError:  # its class has no room for weak references, so it has to stay
            self.owners[target] = owner

    def release(self, target: int) -> None:
        with _lock:
            self.users[target] = self.users.get(target, 1) - 1
            if self.users[target] <= 0:
                self.forget(target)

    def forget(self, target: int) -> None:
        with _lock:
            self.users.pop(target, None)
            self.observers.pop(target, None)
            self.owners.pop(target, None)
            layer: Layer | None = self
            # Also those below that were released earlier and could not leave from under this one.
            while layer and not layer.observers and layer.slot.get() is layer.wrapper:
                if layer.before is _MISSING:
                    layer.slot.remove()
                else:
                    layer.slot.put(layer.before)
                layer = getattr(layer.before, _LAYER, None)


Release = Callable[[], None]


def patch_attribute(owner: Any, name: str, key: object, begin: Begin) -> Release:
    """Raises UsageError where the attribute cannot be replaced without changing what the object is."""
    what = f"{name} of the {type(owner).__name__}"
    own: dict[str, Any] | None = getattr(owner, "__dict__", None)
    static = inspect.getattr_static(type(owner), name, None)
    with _lock:
        if isinstance(own, dict) and (name in own or (name != "__call__" and not inspect.isfunction(static))):
            if hasattr(type(static), "__set__") or not callable(getattr(owner, name, None)):
                raise UsageError(f"{what} is not a method or function that can be replaced")
            return _patch(InMapping(own, name), getattr(owner, name), key, begin, None)
        if not inspect.isfunction(static):
            raise UsageError(f"{what} is not a method or function that can be replaced")
        try:
            return _patch(InClass(type(owner), name), static, key, begin, owner)
        except (TypeError, AttributeError) as error:
            raise UsageError(f"{what} cannot be replaced: {error}") from error


def patch_item(slot: Slot, key: object, begin: Begin) -> Release:
    with _lock:
        return _patch(slot, slot.get(), key, begin, None)


def _patch(slot: Slot, function: Callable[..., Any], key: object, begin: Begin, owner: Any) -> Release:
    layer = _existing_layer(slot, key) or Layer(slot, key, function)
    target = id(owner) if owner is not None else 0
    layer.add(target, begin)
    if owner is not None:
        layer.watch(owner)
    return cache(partial(layer.release, target))  # once, however often it is called


def _existing_layer(slot: Slot, key: object) -> Layer | None:
    function = slot.get()
    while layer := getattr(function, _LAYER, None):
        if layer.key == key:
            return cast(Layer, layer)
        function = layer.before
    return None

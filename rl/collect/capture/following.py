"""Functions wrapped so that an observer sees each call to its end, whatever kind of function it is.

The wrapper is of the same kind as the function (``inspect`` cannot tell them apart), gives back what it gives back and
raises the very exception that it raises. Generators are driven step by step, and the observer is entered for each step
alone: between the steps the code of whoever iterates runs, which is not part of the call."""

import inspect
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial, wraps
from typing import Any, Protocol


class Observer(Protocol):
    """Observes one call of a function. None of its methods raises."""

    def __enter__(self) -> object:
        """From here to ``__exit__`` the function's own code runs."""

    def __exit__(self, *error: object) -> None: ...

    def item(self, value: Any) -> None:
        """The function yielded it."""

    def end(self, result: Any) -> None: ...

    def fail(self, error: BaseException) -> None: ...


Begin = Callable[[tuple[Any, ...], dict[str, Any]], Observer | None]
"""Called with the arguments of each call, before it; None: this call is not observed. Must not raise."""


def observe(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    of_object = inspect.getattr_static(type(function), "__call__", None)
    for is_kind, wrap in _KINDS:
        if is_kind(function) or is_kind(of_object):
            return wraps(function)(wrap(function, begin))
    return wraps(function)(_plain(function, begin))


@contextmanager
def _watch(observer: Observer, *ends: type[BaseException]) -> Iterator[None]:
    """Enters the observer for a step, and tells it of an error, unless that is how an iterator ends."""
    try:
        with observer:
            yield
    except ends:
        raise
    except BaseException as error:
        observer.fail(error)
        raise


def _plain(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        observer = begin(args, kwargs)
        if observer is None:
            return function(*args, **kwargs)
        with _watch(observer):
            result = function(*args, **kwargs)
        return _follow(result, observer)

    return wrapper


def _coroutine(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        observer = begin(args, kwargs)
        if observer is None:
            return await function(*args, **kwargs)
        with _watch(observer):
            result = await function(*args, **kwargs)
        observer.end(result)
        return result

    return wrapper


def _generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        observer = begin(args, kwargs) or _NoObserver()
        inner = function(*args, **kwargs)
        step: Callable[[], Any] = partial(next, inner)
        while True:
            try:
                with _watch(observer, StopIteration):
                    item = step()
            except StopIteration as stop:
                observer.end(stop.value)
                return stop.value
            observer.item(item)
            try:
                sent = yield item
            except GeneratorExit:
                with _watch(observer):
                    inner.close()
                observer.end(None)
                raise
            except BaseException as error:  # noqa: BLE001  thrown on into the inner one
                step = partial(inner.throw, error)
            else:
                step = partial(inner.send, sent)

    return wrapper


def _async_generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        observer = begin(args, kwargs) or _NoObserver()
        inner = function(*args, **kwargs)
        step: Callable[[], Any] = inner.__anext__
        while True:
            try:
                with _watch(observer, StopAsyncIteration):
                    item = await step()
            except StopAsyncIteration:
                observer.end(None)
                return
            observer.item(item)
            try:
                sent = yield item
            except GeneratorExit:
                with _watch(observer):
                    await inner.aclose()
                observer.end(None)
                raise
            except BaseException as error:  # noqa: BLE001  thrown on into the inner one
                step = partial(inner.athrow, error)
            else:
                step = partial(inner.asend, sent)

    return wrapper


def _follow(result: Any, observer: Observer) -> Any:
    """What a function that is none of the other kinds gave back may still have its work before it."""
    try:
        return _by_its_kind(result, observer)
    except Exception:  # noqa: BLE001  an object that cannot even be asked what it is
        observer.end(result)
        return result


def _by_its_kind(result: Any, observer: Observer) -> Any:
    def same_result(*args: object, **kwargs: object) -> Any:
        return result

    def same_observer(*_: object) -> Observer:
        return observer

    if inspect.iscoroutine(result):
        return _coroutine(same_result, same_observer)()
    if inspect.isgenerator(result):
        return _generator(same_result, same_observer)()
    if inspect.isasyncgen(result):
        return _async_generator(same_result, same_observer)()
    if callable(getattr(type(result), "add_done_callback", None)):
        result.add_done_callback(partial(_end_with_future, observer))
    else:
        observer.end(result)
    return result


def _end_with_future(observer: Observer, future: Any) -> None:
    if future.cancelled():
        observer.fail(CancelledError())
    elif error := future.exception():
        observer.fail(error)
    else:
        observer.end(future.result())


class _NoObserver(nullcontext[None]):
    def item(self, value: Any) -> None: ...

    def end(self, result: Any) -> None: ...

    def fail(self, error: BaseException) -> None: ...


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[..., Any]], ...] = (
    (inspect.iscoroutinefunction, _coroutine),
    (inspect.isasyncgenfunction, _async_generator),
    (inspect.isgeneratorfunction, _generator),
)

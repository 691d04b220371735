"""Pickles that want something: what each asks for, and what became of it.

Outcomes: ``data`` means that it was read as inert data, ``refused`` that the one clear error was raised. Standard library
only: the process in which they are read imports this file.
"""

import marshal
import pickle
import struct
from dataclasses import dataclass, field

COMMAND = "touch /tmp/ratchet-was-here"
RUN, IMPORT, FILE, NETWORK = "runs a command", "imports a module", "touches a file", "opens a connection"
CODE, CALL, LOOKUP, BEND = "runs Python code", "calls a function", "looks up a name", "changes a class or function"
MEMORY, TIME, CRASH = "takes all memory", "takes minutes", "crashes with another error"


@dataclass(frozen=True)
class Case:
    group: str
    name: str
    must_not: str
    data: bytes
    outcome: str = "data"
    limits: dict[str, int] = field(default_factory=dict)
    """Smaller than the real ones, so that the test takes milliseconds."""
    control: bool = False
    """The standard unpickler does what it must not: the test would notice."""


# --- writing opcodes ---------------------------------------------------------------------------------------------------


def text(value: str) -> bytes:
    raw = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw


def raw(value: bytes) -> bytes:
    return b"B" + struct.pack("<I", len(value)) + value


def integer(value: int) -> bytes:
    body = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(body)]) + body


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def dotted(module: str, attribute: str) -> bytes:
    return text(module) + text(attribute) + b"\x93"


def call(callee: bytes, *arguments: bytes) -> bytes:
    return callee + b"(" + b"".join(arguments) + b"tR"


def whole(body: bytes) -> bytes:
    return b"\x80\x04" + body + b"."


SYSTEM = call(name("os", "system"), text(COMMAND))
INNER = pickle.dumps("inner")
CODE_BYTES = marshal.dumps(compile("1", "x", "eval"))


def calls() -> list[Case]:
    """A function of the standard library, called with REDUCE."""
    wanted: list[tuple[str, str, str, tuple[bytes, ...]]] = [
        ("os", "system", RUN, (text(COMMAND),)),
        ("posix", "system", RUN, (text(COMMAND),)),
        ("nt", "system", RUN, (text(COMMAND),)),
        ("os", "popen", RUN, (text(COMMAND),)),
        ("os", "remove", FILE, (text("/tmp/x"),)),
        ("os", "fork", RUN, ()),
        ("os", "putenv", CALL, (text("A"), text("b"))),
        ("subprocess", "Popen", RUN, (text(COMMAND),)),
        ("subprocess", "check_output", RUN, (text(COMMAND),)),
        ("pty", "spawn", RUN, (text("/bin/sh"),)),
        ("shutil", "rmtree", FILE, (text("/tmp/none"),)),
        ("builtins", "eval", CODE, (text("1+1"),)),
        ("builtins", "exec", CODE, (text("x=1"),)),
        ("__builtin__", "eval", CODE, (text("1+1"),)),
        ("builtins", "compile", CODE, (text("1"), text("f"), text("eval"))),
        ("builtins", "__import__", IMPORT, (text("antigravity"),)),
        ("builtins", "open", FILE, (text("/tmp/x"), text("w"))),
        ("io", "open_code", FILE, (text("/etc/passwd"),)),
        ("_io", "FileIO", FILE, (text("/etc/passwd"),)),
        ("importlib", "import_module", IMPORT, (text("this"),)),
        ("runpy", "run_path", CODE, (text("/tmp/x.py"),)),
        ("runpy", "run_module", CODE, (text("this"),)),
        ("timeit", "timeit", CODE, (text("1"),)),
        ("cProfile", "run", CODE, (text("1"),)),
        ("code", "interact", CODE, ()),
        ("pdb", "run", CODE, (text("1"),)),
        ("socket", "create_connection", NETWORK, (b"(" + text("127.0.0.1") + b"K\x09t",)),
        ("socket", "gethostbyname", NETWORK, (text("localhost"),)),
        ("urllib.request", "urlopen", NETWORK, (text("http://127.0.0.1:9/"),)),
        ("webbrowser", "open", RUN, (text("http://127.0.0.1:9/"),)),
        ("ctypes", "CDLL", CODE, (text("libc.so.6"),)),
        ("ctypes", "string_at", CRASH, (b"K\x00",)),
        ("marshal", "loads", CODE, (raw(CODE_BYTES),)),
        ("pickle", "loads", CODE, (raw(INNER),)),
        ("_pickle", "loads", CODE, (raw(INNER),)),
        ("sys", "exit", CRASH, ()),
        ("os", "_exit", CRASH, (b"K\x00",)),
        ("os", "abort", CRASH, ()),
        ("time", "sleep", TIME, (b"M\x10\x0e",)),
        ("builtins", "input", TIME, ()),
        ("signal", "alarm", CALL, (b"K\x01",)),
        ("atexit", "register", CALL, (name("os", "abort"),)),
        ("sys", "settrace", CALL, (name("os", "abort"),)),
        ("gc", "get_objects", CALL, ()),
        ("builtins", "globals", CALL, ()),
        ("torch", "load", CODE, (text("/tmp/x.pt"),)),
        ("torch.storage", "_load_from_bytes", CODE, (raw(INNER),)),
        ("numpy.testing._private.utils", "runstring", CODE, (text("1"), b"}")),
        ("toolboxv2.mods.isaa.base.Agent.types", "AgentCheckpoint", IMPORT, ()),
    ]
    uncontrolled = {
        "nt",
        "__builtin__",
        "torch",
        "torch.storage",
        "numpy.testing._private.utils",
        "time",
        "atexit",
        "gc",
        "signal",
    }
    loud = {
        "system",
        "popen",
        "Popen",
        "check_output",
        "spawn",
        "remove",
        "rmtree",
        "eval",
        "exec",
        "compile",
        "open",
        "open_code",
        "FileIO",
        "import_module",
        "__import__",
        "run_path",
        "create_connection",
        "gethostbyname",
        "urlopen",
        "CDLL",
        "fork",
        "putenv",
        "string_at",
        "timeit",
    }
    return [
        Case(
            "a function called",
            f"{module}.{attribute}",
            must_not,
            whole(call(name(module, attribute), *arguments)),
            control=attribute in loud and module not in uncontrolled,
        )
        for module, attribute, must_not, arguments in wanted
    ]


def chains() -> list[Case]:
    """Functions that are made on the way."""
    get = name("builtins", "getattr")
    system = call(get, name("os", "path"), text("os"))
    cases: list[tuple[str, str, bytes]] = [
        ("getattr of getattr", RUN, call(call(get, system, text("system")), text(COMMAND))),
        ("getattr of a function's __globals__", LOOKUP, call(get, name("os", "popen"), text("__globals__"))),
        ("functools.partial", RUN, call(call(name("functools", "partial"), name("os", "system"), text(COMMAND)))),
        ("functools.reduce", RUN, call(name("functools", "reduce"), name("os", "system"), b"]" + text(COMMAND) + b"a")),
        (
            "operator.attrgetter",
            RUN,
            call(call(call(name("operator", "attrgetter"), text("system")), name("os", "path"))),
        ),
        (
            "operator.methodcaller",
            RUN,
            call(call(name("operator", "methodcaller"), text("system"), text(COMMAND)), b"N"),
        ),
        (
            "map, drained by list",
            RUN,
            call(
                name("builtins", "list"),
                call(name("builtins", "map"), name("os", "system"), b"]" + text(COMMAND) + b"a"),
            ),
        ),
        (
            "types.FunctionType of marshalled code",
            CODE,
            call(call(name("types", "FunctionType"), call(name("marshal", "loads"), raw(CODE_BYTES)), b"}")),
        ),
        ("type() with three arguments", CODE, call(name("builtins", "type"), text("X"), b")", b"}")),
        ("a dotted name through collections", LOOKUP, call(dotted("collections", "_sys.modules.get"), text("os"))),
        ("a dotted name through datetime", LOOKUP, call(dotted("datetime", "sys.modules.__getitem__"), text("os"))),
        ("a dotted name through builtins", CODE, call(dotted("builtins", "eval.__call__"), text("1"))),
        ("a dotted name through the agent's package", RUN, call(dotted("toolboxv2", "os.system"), text(COMMAND))),
        ("a dunder as name", LOOKUP, call(dotted("builtins", "object.__subclasses__"))),
        ("letters that look like others", RUN, call(dotted("\uff4fs", "\u0455ystem"), text(COMMAND))),
        ("a relative module", IMPORT, call(dotted("..os", "system"), text(COMMAND))),
        ("a module's name with a NUL", IMPORT, call(dotted("os\x00", "system"), text(COMMAND))),
        ("half a surrogate pair as name", IMPORT, dotted("\ud800", "x")),
        (
            "copyreg._reconstructor of another class",
            CALL,
            call(name("copy_reg", "_reconstructor"), name("subprocess", "Popen"), name("builtins", "object"), b"N"),
        ),
        ("copyreg.__newobj__", CALL, call(name("copyreg", "__newobj__"), name("subprocess", "Popen"), text(COMMAND))),
        ("copyreg.add_extension", BEND, call(name("copyreg", "add_extension"), text("os"), text("system"), b"K\x01")),
        ("codecs.decode with a codec that unpacks", MEMORY, call(name("codecs", "decode"), raw(b"x"), text("zlib"))),
        ("_codecs.encode with another codec", IMPORT, call(name("_codecs", "encode"), text("x"), text("rot13"))),
    ]
    controlled = {"functools.partial", "getattr of getattr", "map, drained by list", "a dotted name through builtins"}
    return [
        Case("a function found on the way", title, must_not, whole(body), control=title in controlled)
        for title, must_not, body in cases
    ]


def other_calls() -> list[Case]:
    """Every opcode that makes something, and every place where it can hide."""
    popen, argument = name("subprocess", "Popen"), b"(" + text(COMMAND) + b"t"
    nested = call(name("os", "system"), text("true"))
    cases: list[tuple[str, str, bytes, str, bool]] = [
        ("INST", RUN, b"(" + text(COMMAND) + b"ios\nsystem\n", "data", True),
        ("OBJ", RUN, b"(" + name("os", "system") + text(COMMAND) + b"o", "data", True),
        ("OBJ of nothing", CRASH, b"(o", "refused", False),
        ("NEWOBJ", RUN, popen + argument + b"\x81", "data", False),
        ("NEWOBJ of what was called", RUN, SYSTEM + argument + b"\x81", "refused", False),
        ("NEWOBJ_EX", RUN, popen + argument + b"}" + text("shell") + b"\x88s\x92", "data", False),
        ("NEWOBJ_EX without keywords", CRASH, popen + argument + b"N\x92", "refused", False),
        (
            "BUILD, which calls __setstate__",
            CALL,
            name("collections", "Counter") + b")\x81}" + text("x") + nested + b"sb",
            "data",
            True,
        ),
        (
            "BUILD of a function's __defaults__",
            BEND,
            name("os", "system") + b"}" + text("__defaults__") + b")sb",
            "refused",
            False,
        ),
        (
            "BUILD of a class",
            BEND,
            name("collections", "OrderedDict") + b"}" + text("x") + b"K\x01sb",
            "refused",
            False,
        ),
        (
            "BUILD of __class__ and __dict__",
            BEND,
            name("x", "Y") + b")\x81}(" + text("__class__") + nested + text("__dict__") + b"}ub",
            "data",
            False,
        ),
        ("BUILD of slots", BEND, name("x", "Y") + b")\x81N}" + text("__slots__") + nested + b"s\x86b", "data", False),
        ("BUILD of a dict", CRASH, b"}}b", "refused", False),
        ("in a list", RUN, b"]" + SYSTEM + b"a", "data", True),
        ("in a tuple", RUN, SYSTEM + b"\x85", "data", True),
        ("as the value of a dict", RUN, b"}" + text("x") + SYSTEM + b"s", "data", True),
        ("as the key of a dict", RUN, b"}" + SYSTEM + b"Ns", "data", True),
        ("in a set", RUN, b"\x8f(" + SYSTEM + b"\x90", "data", True),
        ("in a frozenset", RUN, b"(" + SYSTEM + b"\x91", "data", True),
        ("in the arguments of a datetime", RUN, call(name("datetime", "datetime"), SYSTEM), "data", True),
        ("in the arguments of itself", RUN, call(name("os", "system"), SYSTEM), "data", True),
        ("in what is dropped again", RUN, SYSTEM + b"0N", "data", True),
        ("in what lies under a dropped mark", RUN, b"(" + SYSTEM + b"1N", "data", True),
        (
            "fetched from the memo",
            RUN,
            name("os", "system") + b"q\x00(" + text(COMMAND) + b"tRh\x00(" + text(COMMAND) + b"tR\x86",
            "data",
            True,
        ),
        ("a persistent id", LOOKUP, b"Pos.system\n", "refused", False),
        ("a persistent object", LOOKUP, SYSTEM + b"Q", "refused", True),
        ("an extension of one byte", LOOKUP, b"\x82\x01", "refused", False),
        ("an extension of two bytes", LOOKUP, b"\x83\x01\x00", "refused", False),
        ("an extension of four bytes", LOOKUP, b"\x84\x01\x00\x00\x00", "refused", False),
        ("a buffer from outside", LOOKUP, b"\x97", "refused", False),
        ("a read-only buffer", LOOKUP, raw(b"x") + b"\x98", "refused", False),
    ]
    return [
        Case("another way to call", title, must_not, whole(body), outcome, control=control)
        for title, must_not, body, outcome, control in cases
    ]


def known_types() -> list[Case]:
    """Types that the reader rebuilds, with arguments that nobody writes."""
    huge = integer(10**12)
    cases: list[tuple[str, str, bytes, str]] = [
        ("bytes(10**12)", MEMORY, call(name("builtins", "bytes"), huge), "data"),
        ("bytearray(10**12)", MEMORY, call(name("builtins", "bytearray"), huge), "data"),
        ("set of a range", MEMORY, call(name("builtins", "set"), call(name("builtins", "range"), huge)), "data"),
        ("pow(10, 10**12)", TIME, call(name("builtins", "pow"), b"K\x0a", huge), "data"),
        ("text times 10**12", MEMORY, call(name("operator", "mul"), text("x"), huge), "data"),
        ("Decimal with an exponent of 9 digits", MEMORY, call(name("decimal", "Decimal"), text("1E999999999")), "data"),
        ("Fraction with a large exponent", TIME, call(name("fractions", "Fraction"), text("1E99999999")), "data"),
        ("datetime in the year 65535", CRASH, call(name("datetime", "datetime"), raw(b"\xff" * 10)), "data"),
        ("datetime of three bytes", CRASH, call(name("datetime", "datetime"), raw(b"abc")), "data"),
        (
            "datetime in a zone that is a call",
            RUN,
            call(name("datetime", "datetime"), raw(b"\x07\xea\x01\x01" + b"\x00" * 6), SYSTEM),
            "data",
        ),
        ("time with hour 200", CRASH, call(name("datetime", "time"), raw(b"\xc8" * 6)), "data"),
        ("date of month 0", CRASH, call(name("datetime", "date"), raw(b"\x07\xea\x00\x01")), "data"),
        ("timedelta of 10**12 days", CRASH, call(name("datetime", "timedelta"), huge), "data"),
        (
            "timezone of 48 hours",
            CRASH,
            call(name("datetime", "timezone"), call(name("datetime", "timedelta"), b"K\x02")),
            "data",
        ),
        (
            "ZoneInfo, which reads a file",
            FILE,
            call(dotted("zoneinfo", "ZoneInfo._unpickle"), text("../../etc/passwd"), b"K\x01"),
            "data",
        ),
        ("path of numbers", CRASH, call(name("pathlib", "PosixPath"), b"K\x01"), "data"),
        ("uuid of a text", CRASH, name("uuid", "UUID") + b")\x81}" + text("int") + text("x") + b"sb", "data"),
        (
            "uuid of a negative number",
            CRASH,
            name("uuid", "UUID") + b")\x81}" + text("int") + integer(-1) + b"sb",
            "data",
        ),
        ("OrderedDict of triples", CRASH, call(name("collections", "OrderedDict"), b"]" + b"NNN\x87a"), "data"),
        (
            "defaultdict that calls a function",
            RUN,
            call(name("collections", "defaultdict"), name("os", "abort")),
            "data",
        ),
        ("deque of a call", RUN, call(name("collections", "deque"), SYSTEM), "data"),
        ("getattr of a text", LOOKUP, call(name("builtins", "getattr"), text("x"), text("__class__")), "data"),
    ]
    return [
        Case("a known type, misused", title, must_not, whole(body), outcome) for title, must_not, body, outcome in cases
    ]


def bombs() -> list[Case]:
    """Small files that ask for much."""
    gets = [b"h" + bytes([n]) for n in range(62)]
    laughs = b"]q\x000" + b"".join(b"](" + gets[n] * 10 + b"eq" + bytes([n + 1]) + b"0" for n in range(60)) + gets[60]
    shared = b"](" + b"N" * 1000 + b"eq\x000" + name("builtins", "set") + b"q\x010]("
    copies = shared + b"h\x01(h\x00tR" * 200 + b"e"
    texts = (
        text("x" * 1000)
        + b"q\x000"
        + name("_codecs", "encode")
        + b"q\x010]("
        + (b"h\x01(h\x00" + text("latin1") + b"tR") * 200
        + b"e"
    )
    tuples = (
        b")q\x000"
        + b"".join(gets[n] * 2 + b"\x86q" + bytes([n + 1]) + b"0" for n in range(60))
        + b"}"
        + gets[60]
        + b"Ns"
    )
    modulus = 2**61 - 1
    colliding = b"}(" + b"".join(integer(modulus * n) + b"N" for n in range(1, 60_000)) + b"u"
    members = b"\x8f(" + b"".join(integer(modulus * n) for n in range(1, 60_000)) + b"\x90"
    cases: list[tuple[str, str, bytes, str, dict[str, int]]] = [
        ("ten times the last list, sixty times", MEMORY, laughs, "data", {}),
        ("a shared list copied into sets", MEMORY, copies, "refused", {"copied": 100_000}),
        ("a shared text copied into bytes", MEMORY, texts, "refused", {"copied": 100_000}),
        ("a tuple whose hash takes 2**60 steps", TIME, tuples, "data", {}),
        ("60,000 dict keys with one hash", TIME, colliding, "data", {}),
        ("60,000 members of a set with one hash", TIME, members, "data", {}),
        ("100,000 lists within each other", CRASH, b"]" * 100_000 + b"a" * 99_999, "refused", {}),
        ("100,000 tuples within each other", CRASH, b")" + b"\x85" * 100_000, "refused", {}),
        (
            "shared lists that are deep together",
            CRASH,
            (b"]" * 40 + b"a" * 39)
            + b"q\x000"
            + b"]" * 40
            + b"h\x00"
            + b"a" * 40
            + b"q\x010"
            + b"]" * 40
            + b"h\x01"
            + b"a" * 40,
            "refused",
            {},
        ),
        (
            "calls within each other",
            CRASH,
            b"".join(name("x", "Y") for _ in range(2000)) + b")" + b"R\x85" * 1999 + b"R",
            "refused",
            {},
        ),
        ("an integer of 2 GB", MEMORY, b"\x8b\xff\xff\xff\x7f", "refused", {}),
        ("an integer of negative length", CRASH, b"\x8b\xff\xff\xff\xff", "refused", {}),
        ("an integer of 300 bytes", TIME, b"\x8b\x2c\x01\x00\x00" + b"\x01" * 300, "refused", {}),
        ("an integer of 100,000 digits", TIME, b"I" + b"9" * 100_000 + b"\n", "refused", {}),
        ("a long of 100,000 digits", TIME, b"L" + b"9" * 100_000 + b"L\n", "refused", {}),
        ("text of 2**63 bytes", MEMORY, b"\x8d" + b"\xff" * 7 + b"\x7f", "refused", {}),
        ("bytes of 4 GB", MEMORY, b"B\xff\xff\xff\xff", "refused", {}),
        ("bytes of 2**64 bytes", MEMORY, b"\x8e" + b"\xff" * 8, "refused", {}),
        ("a bytearray of 2**63 bytes", MEMORY, b"\x96" + b"\xff" * 7 + b"\x7f", "refused", {}),
        ("a frame of 2**64 bytes", MEMORY, b"\x95" + b"\xff" * 8 + b"N", "refused", {}),
        ("more opcodes than a checkpoint has", TIME, b"N0" * 60_000 + b"N", "refused", {"opcodes": 100_000}),
        ("more values than fit the stack", MEMORY, b"N2" + b"2" * 100_000, "refused", {"stack": 50_000}),
        ("more marks than fit the stack", MEMORY, b"(" * 100_000, "refused", {"stack": 50_000}),
        ("more memo than fits", MEMORY, b"N" + b"\x94" * 1001, "refused", {"memo": 1000}),
        ("index 2**32 - 1 of the memo", MEMORY, b"Nr\xff\xff\xff\xff", "refused", {}),
        ("index 10**9 of the memo, in text", MEMORY, b"Np1000000000\n", "refused", {}),
        ("a file larger than allowed", MEMORY, raw(b"x" * 2000), "refused", {"file_bytes": 1000}),
        ("a name of 100,000 characters", MEMORY, name("x" * 100_000, "y"), "refused", {}),
        (
            "a name that getattr makes longer and longer",
            MEMORY,
            name("x", "y")
            + b"q\x00"
            + b"".join(
                b"0" + name("builtins", "getattr") + b"h" + bytes([n]) + text("z" * 400) + b"\x86Rq" + bytes([n + 1])
                for n in range(40)
            ),
            "data",
            {},
        ),
    ]
    return [
        Case("a bomb", title, must_not, whole(body), outcome, limits)
        for title, must_not, body, outcome, limits in cases
    ]


def tricks() -> list[Case]:
    """What no honest program writes."""
    cases: list[tuple[str, bytes, str]] = [
        ("an empty file", b"", "refused"),
        ("STOP alone", b".", "refused"),
        ("no STOP", b"\x80\x04N", "refused"),
        ("another pickle behind the first", b"\x80\x04N." + whole(SYSTEM), "refused"),
        ("two values at the end", b"NN.", "refused"),
        ("a mark at the end", b"(N.", "refused"),
        ("protocol 6", b"\x80\x06N.", "refused"),
        ("an unknown opcode", b"\xffN.", "refused"),
        ("POP of nothing", b"0.", "refused"),
        ("POP below a mark", b"N(00.", "refused"),
        ("POP_MARK without a mark", b"1.", "refused"),
        ("DUP of nothing", b"2.", "refused"),
        ("DUP below a mark", b"N(2t.", "refused"),
        ("REDUCE below a mark", name("os", "system") + b"(" + text("x") + b"\x85R.", "refused"),
        ("REDUCE with a list", name("os", "system") + b"]R.", "refused"),
        ("REDUCE of a text", text("os.system") + b")R.", "data"),
        ("REDUCE of a number", b"K\x01)R.", "data"),
        ("APPEND to a tuple", b")Na.", "refused"),
        ("APPEND to a text", text("x") + b"Na.", "refused"),
        ("APPENDS to a dict", b"}(Ne.", "refused"),
        ("SETITEM of a list", b"]NNs.", "refused"),
        ("SETITEMS with an odd number", b"}(NNNu.", "refused"),
        ("DICT with an odd number", b"(Nd.", "refused"),
        ("ADDITEMS to a list", b"](N\x90.", "refused"),
        ("STACK_GLOBAL of numbers", b"K\x01K\x02\x93.", "refused"),
        ("STACK_GLOBAL without a name", text("os") + text("") + b"\x93.", "refused"),
        ("GLOBAL without its lines", b"cos", "refused"),
        ("GLOBAL that is no UTF-8", b"c\xff\n\xff\n.", "refused"),
        ("GET of nothing", b"h\x00.", "refused"),
        ("GET of a negative index", b"g-1\n.", "refused"),
        ("PUT of a negative index", b"Np-1\n.", "refused"),
        ("PUT of an index with a line", b"Np1_0\n.", "refused"),
        ("PUT of nothing", b"q\x00.", "refused"),
        ("PUT twice at one index", b"Nq\x00q\x00.", "refused"),
        ("a number in words", b"Iten\n.", "refused"),
        ("a number with lines", b"I1_0\n.", "refused"),
        ("a float in words", b"Fabc\n.", "refused"),
        ("a float beyond all floats", b"F1e999\n.", "data"),
        ("text that is no UTF-8", b"X\x01\x00\x00\x00\xff.", "refused"),
        ("text with a broken escape", b"V\\u12\n.", "refused"),
        ("quotes that do not match", b"S'x\"\n.", "refused"),
        ("quotes with every escape", b"S'\\x41\\101\\n\\q\\\\'\n.", "data"),
        ("one quote", b"S'\n.", "refused"),
        ("a list that contains itself", b"]q\x00h\x00a.", "data"),
        ("a tuple that is fetched before it exists", b"](h\x00tq\x00a.", "refused"),
        ("a dict that is its own key", b"}q\x00h\x00h\x00s.", "data"),
        ("a set that is its own member", b"\x8fq\x00(h\x00\x90.", "data"),
        ("an object that is its own state", name("x", "Y") + b")\x81q\x00h\x00b.", "data"),
        ("an object that is in its own arguments", b"]q\x00" + name("x", "Y") + b"h\x00\x85Ra.", "data"),
        ("field names of the reader's own", b"}(" + text("$pairs") + b"]" + text("$class") + b"Nu.", "data"),
    ]
    return [Case("opcodes out of order", title, CRASH, data, outcome) for title, data, outcome in cases]


def cases() -> list[Case]:
    return [*calls(), *chains(), *other_calls(), *known_types(), *bombs(), *tricks()]

"""What a program that an agent runs as may try, as data: small programs that say WON when they got it."""

from dataclasses import dataclass

DAEMON = """
import subprocess
def daemon(code, **options):
    # a process of another session, whose parent ends at once
    start = f"import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', {code!r}], start_new_session=True)"
    subprocess.run([sys.executable, "-c", start], start_new_session=True, **options)
"""
LINGER = "import time; open({file!r}, 'w').close(); time.sleep(120)"


@dataclass(frozen=True, slots=True)
class Attack:
    """``facts`` are those of the test's world; ``is_open``: it is won, and the documentation says so."""

    name: str
    what: str
    program: str
    is_open: bool = False


ATTACKS = (
    Attack(
        "environment",
        "a variable of the training is in its environment, but for those that are listed",
        "won(os.environ.get('COOKIE'))",
    ),
    Attack(
        "inherited_descriptors",
        "a file, a socket or a pipe that the training has open is open in it too",
        "won([n for n in range(3, 4096) if attempt(os.fstat, n)])",
    ),
    Attack(
        "terminal",
        "it types into the terminal that the training was started from",
        "won(attempt(os.open, '/dev/tty', os.O_RDWR) is not None)",
    ),
    Attack(
        "no_key",
        "the model answers without a key, or with one that was made up",
        """
for key in ("", "x" * 22, "../" + facts["key"][:5], facts["key"][:-1], facts["key"].lower().upper()):
    address = os.environ["OPENAI_BASE_URL"].replace(facts["key"], key) + "/chat/completions"
    body = json.dumps({"messages": [user("hello")]}).encode()
    won(key != facts["key"] and attempt(urllib.request.urlopen, urllib.request.Request(address, body)))
""",
    ),
    Attack(
        "other_addresses",
        "the model answers at an address of this machine that others can reach",
        """
import socket
port = int(os.environ["OPENAI_BASE_URL"].split(":")[2].split("/")[0])
others = {each[4][0] for each in attempt(socket.getaddrinfo, socket.gethostname(), None) or []}
for address in others - {"127.0.0.1", "::1"}:
    won(attempt(socket.create_connection, (address, port), 1))
""",
    ),
    Attack(
        "malformed_requests",
        "requests that are none stop the answers, for itself or for others",
        """
import socket
port = int(os.environ["OPENAI_BASE_URL"].split(":")[2].split("/")[0])
for text in (b"", b"x" * 99999, b"POST / HTTP/1.1\\r\\nContent-Length: 99999999999\\r\\n\\r\\n", b"\\0\\r\\n\\r\\n",
             b"POST / HTTP/1.1\\r\\nContent-Length: -5\\r\\n\\r\\n", b"GET " + b"/" * 70000 + b" HTTP/1.1\\r\\n\\r\\n"):
    connection = socket.create_connection(("127.0.0.1", port))
    attempt(connection.sendall, text)
    attempt(connection.shutdown, socket.SHUT_WR)
for more in ({"messages": "x"}, {"messages": [[]]}, {"messages": [user("x")], "tools": {"a": 1}}, {"messages": [user(7)]}):
    attempt(ask, [], **more)
won(ask([user("still there")])["message"]["content"] != "still there")
""",
    ),
    Attack(
        "background",
        "a process in the background outlives the episode",
        "import subprocess; subprocess.Popen([sys.executable, '-c', linger])",
    ),
    Attack("other_session", "a daemon in a session of its own outlives the episode", "daemon(linger)"),
    Attack(
        "race_the_end",
        "processes that keep starting others outrun the end",
        """
daemon(f'''
import os, time
for _ in range(200):
    if os.fork():
        time.sleep(0.02)
        os._exit(0)
    os.setsid()
{linger}
''')
""",
    ),
    Attack(
        "files_left",
        "files of the episode are there after it, whatever their permissions",
        """
os.makedirs("a/b/c")
open("a/b/c/file", "w").close()
os.symlink(facts["file"], "a/link")
for folder in ("a/b/c", "a/b", "a"):
    os.chmod(folder, 0)
""",
    ),
    Attack(
        "flood",
        "what it prints fills the training's memory",
        "[sys.stdout.write('x' * 2**20) for _ in range(200)]",
    ),
    Attack("files_of_the_user", "files of the user are read", "won(open(facts['file']).read())", is_open=True),
    Attack(
        "files_written",
        "files of the user are changed",
        "open(facts['file'], 'a').write(' '); won(open(facts['file']).read().endswith(' '))",
        is_open=True,
    ),
    Attack(
        "servers",
        "a server on this machine is reached, and whatever the machine reaches",
        "import socket; won(attempt(socket.create_connection, ('127.0.0.1', facts['port']), 5))",
        is_open=True,
    ),
    Attack(
        "environment_of_the_training",
        "the environment that the training was started with is read from /proc",
        "won(open(f'/proc/{os.getppid()}/environ', 'rb').read())",
        is_open=True,
    ),
    Attack(
        "other_episodes",
        "folders of other episodes are read",
        "won([name for name in os.listdir('..') if name.startswith('ratchet-episode-') and os.listdir('../' + name)])",
        is_open=True,
    ),
    Attack(
        "signals",
        "a process of the user is killed",
        "os.kill(facts['victim'], 9); won(True)",
        is_open=True,
    ),
    Attack(
        "daemon_without_a_trace",
        "a daemon that has cleared its environment outlives the episode",
        "daemon(linger, env={'PATH': os.environ['PATH']})",
        is_open=True,
    ),
)
PRELUDE = """
import time
facts = {**task["facts"], "key": os.environ["OPENAI_API_KEY"]}
linger = task["linger"]
def attempt(action, *arguments, **options):
    try:
        return action(*arguments, **options)
    except Exception:
        return None
def won(what):
    if what:
        print("WON", what, flush=True)
ask([user("hello")])
"""

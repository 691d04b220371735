"""Talking to anybody."""

from typing import Final

from rl.sandbox.attacks.attack import read_attacks

ATTACKS: Final = read_attacks(
    """
### tcp_loopback: a server on this machine is reached
import socket
if attempt(lambda: socket.create_connection(("127.0.0.1", facts["port"]), 0.5)):
    won("connected")

### tcp_internet: an address on the internet can be tried
import socket
for family, address in ((socket.AF_INET, ("1.1.1.1", 53)), (socket.AF_INET6, ("2606:4700:4700::1111", 53))):
    made = attempt(socket.socket, family, socket.SOCK_STREAM)
    if made:
        made.settimeout(0.2)
        if made.connect_ex(address) not in (1, 13, 97, 101):
            won("the way is open")

### udp: a datagram is sent
import socket
for address in (("127.0.0.1", facts["port"]), ("8.8.8.8", 53)):
    if attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", address)):
        won(address[0])

### listen: a port of this machine is opened
import socket
def listen(family, address):
    made = socket.socket(family, socket.SOCK_STREAM)
    made.bind(address)
    made.listen()
    return True
if attempt(listen, socket.AF_INET, ("0.0.0.0", 0)) or attempt(listen, socket.AF_INET6, ("::", 0)):
    won("a port")
if attempt(listen, socket.AF_UNIX, "\\0" + facts["cookie"]):
    won("an abstract name")

### unix_abstract: a Unix socket with an abstract name is reached
import socket
made = attempt(socket.socket, socket.AF_UNIX, socket.SOCK_STREAM)
if made and attempt(lambda: made.connect(facts["abstract"]) or True):
    won("connected")

### unix_path: a Unix socket with a path is reached, as those of Docker and PostgreSQL
import socket
for path in (facts["socket"], "/var/run/docker.sock", "/run/postgresql/.s.PGSQL.5432", "/var/run/postgresql/.s.PGSQL.5432"):
    made = attempt(socket.socket, socket.AF_UNIX, socket.SOCK_STREAM)
    if made and attempt(lambda: made.connect(path) or True):
        won(path)

### unix_pair_redirected: one half of a socket pair is sent to somebody else's socket
import socket
for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    pair = attempt(socket.socketpair, socket.AF_UNIX, kind)
    for target in (facts["datagrams"], facts["socket"], facts["abstract"]):
        if pair and attempt(lambda: pair[0].sendto(b"x", target)):
            won(f"sendto {target!r}")
        if pair and attempt(lambda: pair[0].sendmsg([b"x"], [], 0, target)):
            won(f"sendmsg {target!r}")
        if pair and attempt(lambda: pair[0].connect(target) or True):
            won(f"connect {target!r}")

### vsock: the host of a virtual machine can be called
import socket
if attempt(socket.socket, 40, socket.SOCK_STREAM):
    won("AF_VSOCK")

### other_families: a socket of any other family is made
import socket
for family in range(2, 46):
    for kind in (1, 2, 3, 5):
        if attempt(socket.socket, family, kind):
            won(f"family {family}, type {kind}")

### connections_of_others: the machine's connections and interfaces are listed
wanted = f":{facts['port']:04X} "
for name in ("tcp", "tcp6", "unix"):
    listing = attempt(lambda: open(f"/proc/net/{name}").read()) or ""
    if wanted in listing or facts["socket"] in listing:
        won(name)
if set(attempt(os.listdir, "/sys/class/net") or []) - {"lo"}:
    won("interfaces")

### pass_descriptors: a descriptor is sent through a socket, where nothing counts it while it is on its way
import array, socket
one, other = socket.socketpair()
passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))]
if attempt(lambda: one.sendmsg([b"x"], passed)) or attempt(lambda: one.sendmsg([b"x"])):
    won("sendmsg")
""",
)

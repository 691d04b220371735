"""Reading what is none of the program's business."""

from typing import Final

from rl.sandbox.attacks.attack import read_attacks

ATTACKS: Final = read_attacks(
    """
### read_accounts: the machine's accounts and their password hashes are read
for path in ("/etc/shadow", "/etc/gshadow", "/etc/passwd", "/etc/sudoers", "/root/.ssh/id_rsa"):
    if attempt(lambda: open(path).read()):
        won(path)

### read_settings: the site's settings with their SECRET_KEY are read
if facts["secret_length"] and len(attempt(lambda: open(facts["settings"]).read()) or "") >= facts["secret_length"]:
    won("the settings")

### read_database: the site's database is read
if attempt(lambda: open(facts["database"], "rb").read(16)):
    won("the database")

### write_database: the site's database is changed
attempt(lambda: open(facts["database"], "r+b").write(b"changed"))
attempt(os.truncate, facts["database"], 0)
attempt(os.unlink, facts["database"])

### read_own_package: the code of this project is read
if attempt(lambda: open(facts["package"]).read(1)) or attempt(os.listdir, os.path.dirname(facts["package"])):
    won("the code")

### environment: a variable of the web process is seen
allowed = {"PATH", "HOME", "TMPDIR", "LANG", "PWD", "LC_CTYPE"}
if set(os.environ) - allowed:
    won(sorted(set(os.environ) - allowed))

### environment_of_others: the environment of another process is read
for pid in attempt(os.listdir, "/proc") or []:
    if facts["cookie"].encode() in (attempt(lambda: open(f"/proc/{pid}/environ", "rb").read()) or b""):
        won(f"of process {pid}")
for pid in (facts["victim"], facts["parent"]):
    if attempt(lambda: open(f"/proc/{pid}/environ", "rb").read()) and pid > 99:
        won(f"of process {pid}")

### see_processes: processes of the machine are seen
for pid in attempt(os.listdir, "/proc") or []:
    if facts["cookie"].encode() in (attempt(lambda: open(f"/proc/{pid}/cmdline", "rb").read()) or b""):
        won(f"process {pid}")
if facts["victim"] > 99 and attempt(lambda: os.kill(facts["victim"], 0) or True):
    won("the victim can be reached")

### root_of_others: the machine's files are reached through another process's root or working folder
for pid in {*filter(str.isdigit, attempt(os.listdir, "/proc") or []), "1", "self", str(os.getppid()), str(facts["parent"])}:
    for way in ("root", "cwd", "task/1/root", "root/proc/1/root"):
        if attempt(lambda: open(f"/proc/{pid}/{way}{facts['settings']}").read()):
            won(f"/proc/{pid}/{way}")

### descriptors_of_others: a file that another process holds open is reached
own = os.getpid()
for pid in {*filter(str.isdigit, attempt(os.listdir, "/proc") or []), str(os.getppid()), str(facts["parent"])}:
    for number in attempt(os.listdir, f"/proc/{pid}/fd") or []:
        target = attempt(os.readlink, f"/proc/{pid}/fd/{number}") or ""
        if int(pid) != own and not target.startswith(("pipe:", "/memfd:", "/dev/null", "anon_inode:", "/proc/")):
            won(f"{target} of process {pid}")

### inherited_descriptors: a descriptor of the web process is open in the box
import stat
inherited = []
for number in range(3, 4096):
    mode = attempt(lambda: os.fstat(number).st_mode)
    if mode is not None:
        inherited.append(number)
if inherited:
    won(inherited)

### link_to_secret: a link makes a file readable that is not
for make in (os.symlink, os.link):
    attempt(os.unlink, "link")
    if attempt(lambda: make(facts["settings"], "link") or True) and attempt(lambda: open("link").read()):
        won(make.__name__)

### path_out_of_the_box: a path with .. or a descriptor of a folder leads out of the box
descriptor = os.open("/", os.O_RDONLY) if attempt(os.listdir, "/") else None
ways = [f"{start}/{'../' * 20}{facts['settings']}" for start in ("/tmp", "/proc/self/cwd", "/proc/self/root", "/dev/fd")]
if any(attempt(lambda: open(way).read()) for way in ways):
    won("a path")
if descriptor is not None and attempt(lambda: os.open("../../.." + facts["settings"], os.O_RDONLY, dir_fd=descriptor)):
    won("a folder's descriptor")

### list_folders: folders of the machine that no program needs are listed
for folder in ("/root", "/home", "/var", "/var/lib", "/var/log", "/opt", "/srv", "/mnt", "/sys", "/run", "/boot",
               "/usr/local", facts["folder"], os.path.dirname(facts["package"])):
    if attempt(os.listdir, folder):
        won(folder)

### devices: a disk, the memory or another device is opened
import stat
for name in ("mem", "kmem", "port", "sda", "vda", "nvme0n1", "loop0", "dm-0", "kvm", "fuse", "net/tun", "tty", "console",
             "ptmx", "kmsg", "input/event0", "nvidia0", "nvidiactl", "dri/card0", "vsock", "vhost-vsock", "userfaultfd"):
    if attempt(os.open, f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK) is not None:
        won(name)
for kind, device in ((stat.S_IFBLK, os.makedev(254, 0)), (stat.S_IFBLK, os.makedev(8, 0)), (stat.S_IFCHR, os.makedev(1, 1))):
    if attempt(lambda: os.mknod("device", 0o666 | kind, device) or True):
        won("mknod")

### kernel_secrets: the kernel's memory, addresses or log are read
if attempt(lambda: open("/proc/kcore", "rb").read(1)) or attempt(lambda: open("/dev/kmsg", "rb").read(1)):
    won("memory or log")
if any(line.split()[0].strip("0") for line in attempt(lambda: list(open("/proc/kallsyms"))[:50]) or []):
    won("addresses")
if libc.klogctl(3, ctypes.create_string_buffer(64), 64) > 0:
    won("klogctl")
""",
)

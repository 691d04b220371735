# Completes Ratchet's manage.py in fish.
function __ratchet_at
    set -l typed (commandline -opc)
    if string match -q 'python*' (path basename $typed[1])
        set -e typed[1]
        test (count $typed) -ge 1; and test (path basename $typed[1]) = manage.py; or return 1
    end
    set -e typed[1]
    if test $argv[1] -eq 0
        test (count $typed) -eq 0
    else
        test (count $typed) -ge 1; and test $typed[1] = $argv[2]
    end
end
for program in manage.py python python3
@lines@
end

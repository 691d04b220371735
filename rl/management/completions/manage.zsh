#compdef manage.py
# Completes Ratchet's manage.py in zsh.
_ratchet() {
    local -a known
    local at=2
    if [[ ${words[1]:t} == python* ]]; then
        if [[ ${words[2]:t} != manage.py || $CURRENT -lt 3 ]]; then
            _files
            return
        fi
        at=3
    fi
    known=(
@described@
    )
    if (( CURRENT == at )); then
        _describe command known
        return
    fi
    case $words[at] in
@cases@
        *) _files ;;
    esac
}
compdef _ratchet manage.py ./manage.py python python3

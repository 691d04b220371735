# Completes Ratchet's manage.py in bash.
_ratchet() {
    local at=1 words current=${COMP_WORDS[COMP_CWORD]}
    if [[ ${COMP_WORDS[0]##*/} == python* ]]; then
        [[ ${COMP_WORDS[1]##*/} == manage.py && $COMP_CWORD -gt 1 ]] || return 0
        at=2
    fi
    if [[ $COMP_CWORD -eq $at ]]; then
        words=@commands@
    else
        case ${COMP_WORDS[at]} in
@cases@
        *) return 0 ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _ratchet manage.py ./manage.py python python3

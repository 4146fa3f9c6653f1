# shellcheck shell=bash
# Completion of lockagent's command line for bash.
_lockagent() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=serve i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        serve | check | trust | healthcheck)
            command=${COMP_WORDS[i]}
            break
            ;;
        esac
    done
    case $before in
    -c | --config)
        mapfile -t COMPREPLY < <(compgen -f -X '!*.y*ml' -- "$word"; compgen -d -- "$word")
        return
        ;;
    -s | --set | --address) return ;;
    esac
    local words
    case $command in
    check | trust)
        mapfile -t COMPREPLY < <(compgen -f -X '!*.y*ml' -- "$word"; compgen -d -- "$word")
        return
        ;;
    healthcheck) words="--config --set --address --ready" ;;
    *)
        words="--config --set --print-config"
        [ "$COMP_CWORD" -gt 1 ] || words="serve check trust healthcheck --version --help $words"
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o filenames -F _lockagent lockagent

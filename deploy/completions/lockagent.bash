# shellcheck shell=bash
# Completion of lockagent's command line for bash.
_lockagent() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=serve i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        serve | check | trust | unlock | layouts | healthcheck | run | capacity)
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
    --on-lost)
        mapfile -t COMPREPLY < <(compgen -W "term kill ignore" -- "$word")
        return
        ;;
    -s | --set | --address | --yes | -w | --wait | -t | --ttl | --max-hold | -l | --label | -E | --conflict-exit-code) return ;;
    --)
        mapfile -t COMPREPLY < <(compgen -c -- "$word")
        return
        ;;
    esac
    local words
    [[ $command != capacity || $before != --* ]] || return 0
    case $command in
    check | trust | unlock | layouts)
        mapfile -t COMPREPLY < <(compgen -f -X '!*.y*ml' -- "$word"; compgen -d -- "$word")
        [ "$command" != check ] || mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W --ask -- "$word")
        [ "$command" != unlock ] || mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W --yes -- "$word")
        [ "$command" != trust ] || mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W --new -- "$word")
        return
        ;;
    healthcheck) words="--config --set --address --ready" ;;
    capacity)
        words="--pods --holds --rate --refused --reads --waiters --keys"
        words+=" --ttl --core --memory --connections --pods-per-node --help"
        ;;
    run)
        [[ " ${COMP_WORDS[*]:0:COMP_CWORD} " != *" -- "* ]] || {
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            return
        }
        words="--no-wait --wait --read --ttl --max-hold --on-lost --label --conflict-exit-code --quiet --config --set --help --"
        ;;
    *)
        words="--config --set --print-config"
        [ "$COMP_CWORD" -gt 1 ] || words="serve check trust unlock layouts healthcheck run capacity --version --help $words"
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o filenames -F _lockagent lockagent

# Completion of dafsctl, dafsd and mount.dafs for bash. The words come from --help of the installed program.

# The mount points of this machine's DAFS mounts. \040 is a space in /proc/mounts.
_dafs_mounts() {
  local point kind
  while read -r _ point kind _; do
    [[ $kind != fuse.dafs ]] || printf '%b\n' "${point//\\0/\\00}"
  done </proc/mounts
}

# _dafs_reply: the lines of standard input that begin with the current word, as words of the shell.
_dafs_reply() {
  local line
  while IFS= read -r line; do
    if [[ -n $line && $line == "$cur"* ]]; then
      printf -v line %q "$line"
      COMPREPLY+=("$line")
    fi
  done
}

# The options of a --help.
_dafs_options() { "$@" --help 2>/dev/null | grep -oE '(^|[ ,])--[a-z][a-z-]*' | tr -d ' ,' | sort -u; }
# The commands of a --help.
_dafs_commands() { "$@" --help 2>/dev/null | sed -n '/^Subcommands:/,$s/^  \([a-z]\{1,\}\)  .*/\1/p'; }
# The words that an option or argument accepts: `NAME TEXT:{a,b}`, or `NAME TEXT REQUIRED   a, b or c`.
_dafs_values() {
  local name=$1
  shift
  "$@" --help 2>/dev/null | sed -nE "s/^ *([^ ]*,)?$name [^{]*\{([^}]*)\}.*/\2/p; s/^ *$name TEXT REQUIRED +//p" |
    sed 's/ or /,/' | tr -s ', ' '\n'
}

_dafs() {
  local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]} word
  COMPREPLY=()
  case ${program##*/} in
    mount.*) _dafs_mount ;;
    dafsd)
      case $before in
        --config|--pid-file|--admin-socket|--tls-*) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        --state-dir) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
        --*) _dafs_reply < <(_dafs_values "$before" "$program") ;;
      esac
      [[ $cur != -* ]] || _dafs_reply < <(_dafs_options "$program") ;;
    *) _dafs_ctl ;;
  esac
}

_dafs_ctl() {
  local command=("$program") commands
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word != -* ]] || continue
    commands=$(_dafs_commands "${command[@]}")
    [[ $'\n'$commands$'\n' == *$'\n'"$word"$'\n'* ]] || break
    command+=("$word")
  done
  if [[ $cur == -* ]]; then
    _dafs_reply < <(_dafs_options "${command[@]}")
    return
  fi
  case $before in
    --socket|--conf|--tls-*) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    --*)
      _dafs_reply < <(_dafs_values "$before" "${command[@]}")
      ((${#COMPREPLY[@]} == 0)) || return ;;
  esac
  commands=$(_dafs_commands "${command[@]}")
  if [[ -n $commands ]]; then
    _dafs_reply <<<"$commands"
  elif "${command[@]}" --help 2>/dev/null | grep -q MOUNTPOINT; then
    _dafs_reply < <(_dafs_mounts)
  elif "${command[@]}" --help 2>/dev/null | grep -q '^ *FILE '; then
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  else
    _dafs_reply < <(_dafs_values LEVEL "${command[@]}")
  fi
}

_dafs_mount() {
  local list names
  if [[ $before == -o ]]; then
    # The last one of a list of options.
    list=${cur%"${cur##*,}"} cur=${cur##*,}
    names=$("$program" --help 2>/dev/null | sed -nE '/^Options/,$s/^  ([a-z_].*)/\1/p' |
      sed -E 's/  .*//; s/ \| /\n/g; s/=[^ \n]*/=/g' | grep -E '^[a-z_]+=?$')
    _dafs_reply <<<"$names"
    COMPREPLY=("${COMPREPLY[@]/#/$list}")
    compopt -o nospace 2>/dev/null
  elif [[ $cur == -* ]]; then
    _dafs_reply < <(_dafs_options "$program")
  elif ((COMP_CWORD > 1)); then
    mapfile -t COMPREPLY < <(compgen -d -- "$cur")
  fi
}

complete -F _dafs dafsctl dafsd mount.dafs

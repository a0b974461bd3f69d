package completion

import (
	"fmt"
	"strings"
)

// Shells are the shells that have a script.
var Shells = []string{"bash", "zsh", "fish"}

// scripts are the scripts by shell; PROGRAM stands for the program's name.
var scripts = map[string]string{
	"bash": `# bash completion of PROGRAM: source <(PROGRAM completion bash)
_PROGRAM_complete() {
	local cur="${COMP_WORDS[COMP_CWORD]}" IFS=$'\n'
	local out
	out="$("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" || return
	if [[ "$out" == ":files" ]]; then
		[[ "$cur" == "=" ]] && cur=""
		compopt -o filenames 2>/dev/null
		COMPREPLY=($(compgen -f -- "$cur"))
	else
		COMPREPLY=($out)
	fi
}
complete -F _PROGRAM_complete PROGRAM
`,
	"zsh": `#compdef PROGRAM
# zsh completion of PROGRAM: source <(PROGRAM completion zsh)
_PROGRAM_complete() {
	local -a out
	out=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ "$out[1]" == ":files" ]]; then
		_files
	else
		compadd -- $out
	fi
}
compdef _PROGRAM_complete PROGRAM
`,
	"fish": `# fish completion of PROGRAM: PROGRAM completion fish | source
function __PROGRAM_complete
	set -l words (commandline -opc)
	set -l out ($words[1] __complete $words[2..-1] (commandline -ct) 2>/dev/null)
	if test "$out[1]" = ":files"
		__fish_complete_path (commandline -ct)
	else
		printf '%s\n' $out
	end
end
complete -c PROGRAM -f -a '(__PROGRAM_complete)'
`,
}

// Script returns the script that a shell reads.
func Script(program, shell string) (string, error) {
	text, ok := scripts[shell]
	if !ok {
		return "", fmt.Errorf("no completion for the shell %q (want %s)", shell, strings.Join(Shells, ", "))
	}
	return strings.ReplaceAll(text, "PROGRAM", program), nil
}

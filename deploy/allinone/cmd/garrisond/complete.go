package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/garrison-fleet/garrison/pkg/completion"
)

// complete prints the script of a shell, or the candidates that a script asks for.
func complete(args []string, stdout, stderr io.Writer) int {
	if args[0] == completion.Ask {
		completion.Program{
			Name: "garrisond", Commands: append(commandNames(), "help"), Default: commands[0].name, Files: takesFile,
			Flags: func(command string) *flag.FlagSet {
				fs := flag.NewFlagSet(command, flag.ContinueOnError)
				new(flags).define(fs, command)
				return fs
			},
		}.Print(stdout, args[1:])
		return 0
	}
	if len(args) == 2 && asksForHelp(args[1:]) {
		fmt.Fprintln(stdout, "usage: garrisond completion bash|zsh|fish\n\nPrints the script that completes command "+
			"lines of garrisond: source <(garrisond completion bash)")
		return 0
	}
	if len(args) != 2 {
		fmt.Fprintln(stderr, "garrisond completion: SHELL is missing (bash, zsh or fish): garrisond completion bash")
		return 2
	}
	script, err := completion.Script("garrisond", args[1])
	if err != nil {
		fmt.Fprintln(stderr, "garrisond completion:", err)
		return 2
	}
	fmt.Fprint(stdout, script)
	return 0
}

package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/completion"
)

// commands lists the commands. The first runs without a name.
var commands = []struct{ name, usage string }{
	{"run", "run a whole Garrison with its data in one directory: garrisond --data DIR; the default"},
	{"health", "exit with 0 when the garrisond of --data DIR, or a bus at --url URL, serves clients and has room"},
	{"rehearse", "show whether this version can take over: garrisond rehearse --data DIR, with the flags of run"},
	{"upgrade", "restart the unit with the program that is installed, and go back unless it serves; as root"},
	{"webhooks", "check a file of webhooks and list its routes: garrisond webhooks --data DIR --webhooks FILE"},
	{"backup", "write a backup of a Garrison that runs: garrisond backup FILE --data DIR"},
	{"restore", "make a data directory of a backup: garrisond restore FILE --data DIR"},
	{"export-keys", "write the keys into a file, for members of a cluster: garrisond export-keys FILE --data DIR"},
	{"import-keys", "make a data directory with the keys of such a file: garrisond import-keys FILE --data DIR"},
	{"keys", "create or renew keys, credentials and the accounts of a nats-server, for separate processes"},
	{"provision", "declare the streams on a bus that runs elsewhere"},
	{"grow", "move the streams of a bus of one server to a cluster of servers"},
	{"completion", "print the completion script of bash, zsh or fish: source <(garrisond completion bash)"},
}

func commandNames() []string {
	var names []string
	for _, c := range commands {
		names = append(names, c.name)
	}
	return names
}

// asksForHelp reports whether the arguments ask for the commands rather than for the flags of one.
func asksForHelp(args []string) bool {
	return len(args) == 1 && slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0])
}

// usage returns the help of the program.
func usage() string {
	var b strings.Builder
	b.WriteString("usage: garrisond [COMMAND] [flags]\n\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "  %-11s %s\n", c.name, c.usage)
	}
	b.WriteString("\ngarrisond COMMAND --help lists the flags of a command. The environment can set every flag:\n" +
		"GARRISON_DATA for --data, and so on.\n\n" +
		"  garrisond --data /var/lib/garrisond                        this machine only\n" +
		"  garrisond --data /var/lib/garrisond --listen 0.0.0.0:4222  servers on other machines too\n")
	return b.String()
}

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

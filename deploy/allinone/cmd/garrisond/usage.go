package main

import (
	"fmt"
	"slices"
	"strings"
)

// commands lists the commands, the first of which is run without a name.
var commands = []struct{ name, usage string }{
	{"run", "run a whole Garrison with its data in one directory: garrisond --data DIR; the default"},
	{"health", "exit with 0 when the garrisond of --data DIR, or a bus at --url URL, serves clients"},
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

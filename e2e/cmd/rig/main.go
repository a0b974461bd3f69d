// Command rig runs a whole Garrison from its shipped binaries, in a temporary directory, and does to it what a test has
// no time for: it shows it (demo), breaks it at random (chaos), takes servers of its bus away (failover), upgrades an
// agent under load (handover), simulates many servers (simulate), and compares two builds (pairs).
//
//	rig demo|chaos|failover|handover|simulate|pairs [flags]
//
// `rig COMMAND -h` lists the flags. It exits with 0 when everything held, and with 1 and the reason otherwise.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/garrison-fleet/garrison/pkg/rungroup"
)

// command declares its flags, and returns what runs once they are read.
type command func(flags *flag.FlagSet) (run func(context.Context) error)

var commands = map[string]command{
	"demo": demo, "chaos": chaosRounds, "failover": losses, "handover": handOver, "simulate": simulate, "pairs": pairs,
}

func main() {
	name := ""
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	declare := commands[name]
	if declare == nil {
		fmt.Fprintln(os.Stderr, "usage: rig demo|chaos|failover|handover|simulate|pairs [flags]")
		os.Exit(2)
	}
	flags := flag.NewFlagSet("rig "+name, flag.ExitOnError)
	run := declare(flags)
	_ = flags.Parse(os.Args[2:]) // it exits on an error
	ctx, cancel := rungroup.Signals()
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// binaries is the flag of the programs under test.
func binaries(flags *flag.FlagSet) *string {
	return flags.String("bin", "bin", "`DIRECTORY` with the binaries")
}

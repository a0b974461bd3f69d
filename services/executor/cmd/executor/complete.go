package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/garrison-fleet/garrison/pkg/completion"
	"github.com/garrison-fleet/garrison/pkg/config"
)

// completed returns what of a command line of executor can be completed.
func completed() completion.Program {
	p := completion.Program{Name: "executor", Commands: []string{"help"}}
	byName := map[string]command{}
	for _, c := range commands {
		byName[c.name], p.Commands = c, append(p.Commands, c.name)
	}
	p.Flags = func(name string) *flag.FlagSet {
		f := newFlags(name)
		if set := byName[name].flags; set != nil {
			set(f)
		}
		return f.FlagSet
	}
	return p
}

// wantsShell refuses a completion without its shell.
func (f *flags) wantsShell(context.Context) error {
	fmt.Fprintln(os.Stderr, "executor completion: SHELL is missing (bash, zsh or fish): executor completion bash")
	return config.ErrUsage
}

// printScript prints the completion script of a shell.
func printScript(shell string) error {
	script, err := completion.Script("executor", shell)
	if err != nil {
		fmt.Fprintln(os.Stderr, "executor completion:", err)
		return config.ErrUsage
	}
	_, err = fmt.Print(script)
	return err
}

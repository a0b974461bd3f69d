package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/completion"
	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/visible"
	"github.com/garrison-fleet/garrison/services/executor"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// stdout and stderr are what all commands print to: the texts of agents and of the bus have no effect on the terminal.
func stdout() io.Writer { return visible.Writer(os.Stdout) }
func stderr() io.Writer { return visible.Writer(os.Stderr) }

// The commands below need no bus: they read and change what is under a root.

func (f *flags) health(context.Context) error {
	s, err := status.Read(f.root)
	if err != nil {
		return err
	}
	if err := s.Healthy(time.Now()); err != nil {
		return err
	}
	return layout.Root(f.root).Usable() // also where the executor cannot write that it is not
}

func (f *flags) status(context.Context) error {
	s, err := status.Read(f.root)
	if err != nil {
		return f.waiting(err)
	}
	if f.output == "json" {
		e := json.NewEncoder(stdout())
		e.SetIndent("", "  ")
		return e.Encode(s.AsOf(time.Now()))
	}
	return s.Print(stdout(), time.Now())
}

// resetGeneration makes a stopped executor forget which document it took last.
func (f *flags) resetGeneration(context.Context) error {
	was, err := executor.ResetGeneration(f.root, time.Now())
	if err == nil {
		fmt.Fprintf(stdout(), "forgot generation %d of epoch %d; started again, the executor takes the document that "+
			"it reads first\n", was.Generation, max(was.Epoch, 1))
	}
	return err
}

func (f *flags) journalOnly() {
	f.BoolVar(&f.secrets, "secrets", false, "print the values of secrets in clear")
}

// showJournal prints the records of the journal.
func (f *flags) showJournal(context.Context) error {
	root, err := layout.New(f.root)
	if err != nil {
		return err
	}
	out := json.NewEncoder(stdout())
	out.SetEscapeHTML(false)
	err = journal.Show(root.Journal(), func(l journal.Line) (err error) {
		if !f.secrets {
			if l, err = l.Masked(); err != nil {
				return err
			}
		}
		return out.Encode(l)
	})
	if fault.Is(err, fault.Conflict) {
		return fault.Refusef(fault.Conflict, code.ExecutorRuns, "an executor holds %s", root.Journal()).
			Try("executor status --root " + f.root).From("executor")
	}
	return err
}

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

package work

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

// Flags are the flags of every verb that changes servers.
type Flags struct {
	Servers selector.Flags
	Strict  bool
	Detach  bool
	Note    string
	Timeout time.Duration
	DryRun  bool
	Yes     bool

	Override bool // of freezes and windows
	AtOnce   bool // change more than 100 servers without waves
}

// Add adds the flags; the flags of a selector only if the verb takes one.
func (w *Flags) Add(c *cobra.Command, selector bool) {
	if selector {
		w.Servers.Add(c)
		w.AddStrict(c)
		w.AddAtOnce(c)
	}
	cli.NoteVar(c.Flags(), &w.Note)
	c.Flags().BoolVar(&w.Override, "override", false, "change servers also while their environment is held or "+
		"outside its windows; it is recorded")
	c.Flags().BoolVar(&w.Detach, "detach", false, "do not watch; the work continues")
	cli.TimeVar(c.Flags(), &w.Timeout, "timeout", time.Hour, 0,
		"stop watching after this `DURATION`, with exit code 7; the work continues")
	c.Flags().BoolVar(&w.DryRun, "dry-run", false, "show what would be done; change nothing")
}

// AddStrict adds --strict.
func (w *Flags) AddStrict(c *cobra.Command) {
	c.Flags().BoolVar(&w.Strict, "strict", false, "do nothing if a server must be left out")
}

// MostAtOnce is how many servers change at once without --at-once. The registry refuses an intent for more; a command
// that sends an intent or a request for each server refuses it by itself.
const MostAtOnce = 100

// CheckWidth refuses a command that would do something to many servers, unless it says so by --at-once.
func CheckWidth(verb string, servers int, atOnce bool) error {
	if servers <= MostAtOnce || atOnce {
		return nil
	}
	return fault.Refusef(fault.Invalid, code.TooWide,
		"the command would %s %d servers; %d are allowed without --at-once", verb, servers, MostAtOnce).
		Try("fewer servers, part after part")
}

// AddAtOnce adds --at-once.
func (w *Flags) AddAtOnce(c *cobra.Command) {
	c.Flags().BoolVar(&w.AtOnce, "at-once", false, "change all servers at the same time, also more than 100; see "+
		"garrison rollout start")
}

// Selector parses the flags that select servers.
func (w *Flags) Selector() (*intentv1.Selector, error) { return w.Servers.Selector() }

// Set sets what the flags say of an intent itself.
func (w *Flags) Set(i *intentv1.Intent) {
	i.Strict, i.Note, i.Override, i.AtOnce = w.Strict, w.Note, w.Override, w.AtOnce
}

// AddYes adds --yes.
func (w *Flags) AddYes(c *cobra.Command) {
	c.Flags().BoolVarP(&w.Yes, "yes", "y", false, "do not ask for confirmation")
}

// printsWork checks the columns of the table that the work ends with.
func printsWork(env *cli.Env, w Flags) error {
	if w.Detach {
		return cli.Prints(env, display.Records)(nil, nil)
	}
	return cli.Prints(env, display.Tasks)(nil, nil)
}

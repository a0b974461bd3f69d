package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/visible"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Env is the environment of one run of the command line: its streams, its printer and its connection.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Now      func() time.Time
	Dial     func(bus.Options) (*bus.Conn, error)
	Patience time.Duration // timeout of one request; 0 means bus.DefaultTimeout
	SayEvery time.Duration // interval of progress lines without a terminal; 0 means 30 s

	Began       bool   // the command line was parsed
	ContextName string // --context
	Color       string // --color
	Output      *output.Printer
	Conn        *bus.Conn // the connection of a test; nil means one to the bus of the context
	client      *client.Client
	newer       bool // it was said that the control plane is newer
}

// NewEnv returns an environment without a connection.
func NewEnv(stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) *Env {
	env := &Env{In: stdin, Out: stdout, Err: stderr, Getenv: getenv, Now: time.Now, Dial: bus.Dial}
	env.Output = &output.Printer{Out: stdout, Now: func() time.Time { return env.Now() }}
	env.Output.Width = func() int {
		if !IsTerminal(stdout) {
			return 0
		}
		columns, _ := terminalSize(stdout)
		return columns
	}
	return env
}

// messageWidth returns the columns of the terminal on which messages are printed; 0 for another stream.
func (env *Env) messageWidth() int {
	if !IsTerminal(env.Err) {
		return 0
	}
	columns, _ := terminalSize(env.Err)
	return columns
}

// Messages returns a printer of tables that belong to the messages on standard error.
func (env *Env) Messages() *output.Printer {
	return &output.Printer{
		Out: env.Err, Now: env.Now, Format: output.FormatTable, Width: env.messageWidth, Paint: env.paints(env.Err),
	}
}

// Say prints one line to standard error.
func (env *Env) Say(format string, args ...any) {
	fmt.Fprintln(env.Err, env.paints(env.Err).Message(visible.Text(fmt.Sprintf(format, args...))))
}

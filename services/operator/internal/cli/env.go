// Package cli is what every command of garrison builds on: its environment, its flags, its errors and exit codes.
//
// Env is one run of the command line: the streams, the printer and the connection to the bus, which Env.Connect opens
// at its first use. Call asks a service; Collect and List read a paged list. Group, Exactly and AtMost build cobra
// commands; the ...Var functions add flags that refuse meaningless values before anything is asked.
//
//  1. The exit codes (exit.go) are part of the interface and never change.
//  2. A service's refusal is printed as the service wrote it. A line that begins with "garrison: " is the command
//     line's own.
//  3. Every call has a deadline: 5 s by default, 40 s for the activation of an image.
//  4. Confirm never prompts when standard input is not a terminal.
package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/pflag"

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

	Began       bool                    // the command line was parsed
	DryRun      bool                    // --dry-run
	would       *atomic.Pointer[string] // what the dry run would do
	Names       *Names                  // of what was asked for
	question    string                  // what is asked before something is destroyed
	note        string                  // why something is done, when no request has a place for it
	Empty       string                  // what a list says that has no rows
	ContextName string                  // --context
	Color       string                  // --color
	Output      *output.Printer
	Conn        *bus.Conn // the connection of a test; nil means one to the bus of the context
	client      *client.Client
	newer       bool // it was said that the control plane is newer
}

// PipedWidth is the width of prose where it is not printed on a terminal.
const PipedWidth = 100

// NewEnv returns an environment without a connection.
func NewEnv(stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) *Env {
	env := &Env{In: stdin, Out: stdout, Err: stderr, Getenv: getenv, Now: time.Now, Dial: bus.Dial,
		would: &atomic.Pointer[string]{}, Names: &Names{}}
	env.Output = &output.Printer{Out: stdout, Now: func() time.Time { return env.Now() }}
	env.Output.Width = func() int {
		if !IsTerminal(stdout) {
			columns, _ := strconv.Atoi(getenv("COLUMNS"))
			return max(columns, 0)
		}
		columns, _ := terminalSize(stdout)
		return columns
	}
	env.Output.LeftOut = func(titles []string) {
		env.Say("left out: %s; -o wide shows all", strings.Join(titles, ", "))
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

// The values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

// ColorFlag adds --color.
func ColorFlag(env *Env, f *pflag.FlagSet) {
	env.Color = colorAuto
	words := []string{colorAuto, colorAlways, colorNever}
	f.Var(textValue(&env.Color, OneOf("value", words)).Words(words), "color",
		"color tables and messages: `WHEN` is auto (on a terminal, unless NO_COLOR is set), always or never")
}

// PaintTables decides whether tables are coloured, once the flags are known.
func (env *Env) PaintTables() { env.Output.Paint = env.paints(env.Out) }

// paints reports whether what is written to a stream is coloured.
func (env *Env) paints(stream any) output.Paint {
	switch forced := env.getenv("CLICOLOR_FORCE"); {
	case env.Color == colorAlways:
		return true
	case env.Color == colorNever, env.getenv("NO_COLOR") != "":
		return false
	case forced != "" && forced != "0":
		return true
	}
	return output.Paint(IsTerminal(stream) && env.getenv("TERM") != "dumb")
}

func (env *Env) getenv(name string) string {
	if env.Getenv == nil {
		return ""
	}
	return env.Getenv(name)
}

// Live returns the progress line of the command. It is drawn on a terminal only.
func (env *Env) Live() *output.Live {
	width := func() int {
		columns, _ := terminalSize(env.Err)
		return columns
	}
	height := func() int {
		_, lines := terminalSize(env.Err)
		return lines
	}
	return &output.Live{
		W: env.Err, On: IsTerminal(env.Err) && env.Getenv("TERM") != "dumb", Width: width, Height: height,
		Paint: env.paints(env.Err),
	}
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

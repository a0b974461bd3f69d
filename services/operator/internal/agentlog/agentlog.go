// Package agentlog implements garrison logs, which prints the output of an agent on a server.
package agentlog

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/visible"
	logv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/log/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// defaultLines is how many lines are printed without --lines and --since.
const defaultLines = 100

// logFlags select output.
type logFlags struct {
	follow bool
	raw    bool
	since  time.Time
	lines  uint32
}

// Command returns the command logs.
func Command(env *cli.Env) *cobra.Command {
	var f logFlags
	c := &cobra.Command{
		Use: "logs SERVER AGENT", Short: "Print the output of an agent on a server.",
		Long: `Print the output of an agent on a server: what its processes wrote to standard output and standard error.

The server sends it on request; nothing is collected. It keeps the last 4 to 8 MiB of each agent. The output has
no times of its own: --since begins at the line before which nothing newer was written, within a few seconds.
The ledger records who read the output of which agent, and when: garrison events --noun server --id SERVER.

Output is shown as the agent wrote it. Garrison adds no secret to it, and removes none that the agent writes.
Characters that would control the terminal are left out; --raw keeps them, where standard output is no terminal.`,
		Example: "  garrison logs web-1 beacon\n" +
			"  garrison logs web-1 beacon -f\n" +
			"  garrison logs web-1 beacon --since 10m --lines all",
		Args: cli.Exactly("SERVER", "AGENT"), PreRunE: cli.NoTable(env),
		RunE: func(c *cobra.Command, a []string) error {
			if err := f.check(env, c.Flags().Changed("lines")); err != nil {
				return err
			}
			return read(c.Context(), env, f, &registryv1.OpenLogRequest{Server: a[0], Agent: a[1], Start: f.start()})
		},
	}
	c.Flags().BoolVarP(&f.follow, "follow", "f", false, "continue with new output until Ctrl-C")
	c.Flags().Var(cli.ValueOf(&f.since, cli.PastReader(env.Now), func(time.Time) string { return "" }), "since",
		"only output since a "+cli.TimeWords)
	cli.LimitVarP(c.Flags(), &f.lines, "lines", "n", defaultLines, "only the last `LINES`, or all; all with --since")
	c.Flags().BoolVar(&f.raw, "raw", false, "print the bytes as they are")
	return c
}

// check refuses what cannot be printed.
func (f *logFlags) check(env *cli.Env, linesGiven bool) error {
	if env.Output.Format != output.FormatTable {
		return cli.Usage("garrison logs prints output as it is, and not as %s", env.Output.Format)
	}
	if f.raw && cli.IsTerminal(env.Out) {
		return cli.Usage("--raw: standard output is a terminal, which the output could control. Try: garrison logs " +
			"SERVER AGENT --raw >FILE")
	}
	if !f.since.IsZero() && !linesGiven {
		f.lines = 0
	}
	return nil
}

// start returns where the reading begins.
func (f *logFlags) start() *logv1.Start {
	s := &logv1.Start{Lines: f.lines}
	if !f.since.IsZero() {
		s.Since = timestamppb.New(f.since)
	}
	return s
}

// longestLine is how much of a line is kept until its end arrives; a longer one is printed in pieces.
const longestLine = 64 << 10

// printer prints output line by line.
type printer struct {
	out     io.Writer
	raw     bool
	rest    []byte // of a line whose end did not arrive yet
	printed int
	version string // of the last part
}

func newPrinter(env *cli.Env, raw bool) *printer { return &printer{out: env.Out, raw: raw} }

// print prints the lines of a part that are complete.
func (p *printer) print(env *cli.Env, part client.LogPart) error {
	if part.Cut {
		if err := p.end(); err != nil {
			return err
		}
		env.Say("output was discarded here: the server keeps 4 to 8 MiB of each agent")
	}
	if part.Version != p.version && part.Version != "" {
		if err := p.end(); err != nil {
			return err
		}
		env.Say("output of version %s:", visible.Line(part.Version))
		p.version = part.Version
	}
	p.printed += len(part.Data)
	if p.raw {
		return p.write(part.Data)
	}
	p.rest = append(p.rest, part.Data...)
	cut := bytes.LastIndexByte(p.rest, '\n') + 1
	if cut == 0 && len(p.rest) > longestLine {
		cut = len(p.rest)
	}
	whole := visible.Text(string(p.rest[:cut]))
	p.rest = append([]byte(nil), p.rest[cut:]...)
	return p.write([]byte(whole))
}

// end prints a last line without an end.
func (p *printer) end() error {
	if len(p.rest) == 0 {
		return nil
	}
	whole := visible.Text(string(p.rest)) + "\n"
	p.rest = nil
	return p.write([]byte(whole))
}

func (p *printer) write(data []byte) error {
	if _, err := p.out.Write(data); err != nil {
		return fmt.Errorf("print output: %w", err)
	}
	return nil
}

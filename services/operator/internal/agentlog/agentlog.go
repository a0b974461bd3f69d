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
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

// defaultLines is how many lines are printed without --lines and --since.
const defaultLines = 100

// logFlags select output.
type logFlags struct {
	follow  bool
	raw     bool
	times   bool
	since   time.Time
	lines   uint32
	servers selector.Flags
}

// Command returns the command logs.
func Command(env *cli.Env) *cobra.Command {
	var f logFlags
	c := &cobra.Command{
		Use:   "logs SERVER AGENT | AGENT --on SELECTOR",
		Short: "Print the output of an agent on one or more servers.",
		Long: `Print the output of an agent: what its processes wrote to standard output and standard error. With --on,
that of up to 20 servers, one after the other, or together with -f; each line begins with the server's name.

A server sends it on request; nothing is collected. It keeps the last 4 to 8 MiB of each agent. The output has
no times of its own. --times shows by when a line was written, usually within 2 seconds; a line from while the
executor did not run was written earlier. --since begins at the line before which nothing newer was written.
The ledger records who read which agent's output, and when: garrison events --noun server --id SERVER.

Output is shown as the agent wrote it. Garrison adds no secret to it, and removes none that the agent writes.
Characters that would control the terminal are left out; --raw keeps them, where standard output is no terminal.`,
		Example: "  garrison logs web-1 beacon\n" +
			"  garrison logs web-1 beacon -f --times\n" +
			"  garrison logs beacon --on env=prod -n 5\n" +
			"  garrison logs web-1 beacon --since 10m --lines all",
		Args: cli.AtMost("SERVER", "AGENT"), PreRunE: cli.NoTable(env),
		RunE: func(c *cobra.Command, a []string) error {
			if err := f.check(env, c.Flags().Changed("lines")); err != nil {
				return err
			}
			if c.Flags().Changed("on") {
				if len(a) != 1 {
					return cli.Usage("--on selects the servers, so only AGENT is named. Try: %s --help",
						c.CommandPath())
				}
				return readSeveral(c.Context(), env, f, a[0])
			}
			if len(a) == 1 {
				return cli.Usage("garrison logs: SERVER or AGENT is missing, or --on. Try: "+
					"garrison logs %s --on all", a[0])
			}
			if err := cli.Exactly("SERVER", "AGENT")(c, a); err != nil {
				return err
			}
			q := &registryv1.OpenLogRequest{Server: a[0], Agent: a[1], Start: f.start()}
			return read(c.Context(), env, f, q, newPrinter(env, f))
		},
	}
	c.Flags().BoolVarP(&f.follow, "follow", "f", false, "continue with new output until Ctrl-C")
	c.Flags().Var(cli.ValueOf(&f.since, cli.PastReader(env.Now), func(time.Time) string { return "" }), "since",
		"only output since a "+cli.TimeWords)
	cli.LimitVarP(c.Flags(), &f.lines, "lines", "n", defaultLines, "only the last `LINES`, or all; all with --since")
	c.Flags().BoolVarP(&f.times, "times", "t", false, "show by when each line was written")
	c.Flags().BoolVar(&f.raw, "raw", false, "print the bytes as they are")
	f.servers.Add(c)
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
	if f.raw && f.times {
		return cli.Usage("--raw prints the bytes as they are, and --times adds to them")
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

// printer prints output line by line. Several may print to one writer: each write is of whole lines.
type printer struct {
	out     io.Writer
	raw     bool
	times   bool
	name    string // begins each line; empty where all lines are of one server
	rest    []byte // of a line whose end did not arrive yet
	printed int
	version string    // of the last part
	by      time.Time // by when rest was written
}

func newPrinter(env *cli.Env, f logFlags) *printer {
	return &printer{out: env.Out, raw: f.raw, times: f.times}
}

// say prints a message about the output, behind the line that was begun.
func (p *printer) say(env *cli.Env, text string) error {
	err := p.end()
	if p.name != "" {
		text = p.name + ": " + text
	}
	env.Say("%s", text)
	return err
}

// print prints the lines of a part that are complete.
func (p *printer) print(env *cli.Env, part client.LogPart) error {
	if part.Cut {
		if err := p.say(env, "output was discarded here: the server keeps 4 to 8 MiB of each agent"); err != nil {
			return err
		}
	}
	if part.Version != p.version && part.Version != "" && len(part.Data) > 0 {
		if err := p.say(env, "output of version "+visible.Line(part.Version)+":"); err != nil {
			return err
		}
		p.version = part.Version
	}
	p.printed += len(part.Data)
	if p.raw {
		return p.write(part.Data)
	}
	var out []byte
	for at := 0; at < len(part.Data); {
		line := part.Data[at:]
		whole := bytes.IndexByte(line, '\n') + 1
		if whole > 0 {
			line = line[:whole]
		}
		at += len(line)
		p.rest, p.by = append(p.rest, line...), writtenBy(part.Marks, at)
		if whole > 0 || len(p.rest) > longestLine {
			out = append(out, p.line()...)
		}
	}
	return p.write(out)
}

// writtenBy returns by when what ends at a position of a part was written; zero when that is not known.
func writtenBy(marks []*logv1.Mark, end int) time.Time {
	for _, m := range marks {
		if int(m.GetEnd()) >= end {
			return m.GetBy().AsTime()
		}
	}
	return time.Time{}
}

// line returns what was begun as a line of the screen.
func (p *printer) line() []byte {
	text := visible.Text(string(p.rest))
	p.rest = p.rest[:0]
	if p.times && !p.by.IsZero() {
		text = p.by.UTC().Format(time.RFC3339) + " " + text
	}
	if p.name != "" {
		text = p.name + ": " + text
	}
	return []byte(text)
}

// end prints a last line without an end.
func (p *printer) end() error {
	if len(p.rest) == 0 {
		return nil
	}
	return p.write(append(p.line(), '\n'))
}

func (p *printer) write(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if _, err := p.out.Write(data); err != nil {
		return fmt.Errorf("print output: %w", err)
	}
	return nil
}

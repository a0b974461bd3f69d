package agentlog

import (
	"bytes"
	"fmt"
	"io"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/visible"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

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

package cli

import (
	"os"

	"github.com/mattn/go-isatty"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

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

// Package logs makes the one logger of a process and names the fields of its lines.
//
// A line is written once, at the edge, for each thing that changed; its message is a
// fixed phrase and its details are fields with the names below.
package logs

import (
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/pace"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

// The names of fields.
const (
	Service  = "service"
	Server   = "server"
	Agent    = "agent"
	Instance = "instance"
	Image    = "image"
	Version  = "version"
	Intent   = "intent"
	Task     = "task"
	State    = "state"
	Step     = "step"
	Code     = "code"
	Reason   = "reason"
	Subject  = "subject"
	Sequence = "sequence"
	Count    = "count"
	Actor    = "actor"
	Took     = "took"
	Path     = "path"
)

// New returns a logger that writes JSON lines to w, with what steers a terminal escaped. level is debug, info, warn or
// error.
// An empty service leaves the field to loggers that are derived from this one.
func New(w io.Writer, service, level string) (zerolog.Logger, error) {
	l, err := zerolog.ParseLevel(level)
	if err != nil || level == "" {
		return zerolog.Nop(), fmt.Errorf("log level %q: want debug, info, warn or error", level)
	}
	with := zerolog.New(visible.Writer(w)).Level(l).With().Timestamp()
	if service != "" {
		with = with.Str(Service, service)
	}
	return with.Logger(), nil
}

// LeftOut is the field that counts the lines of the same kind that a Pacer left out before this one.
const LeftOut = "left_out"

// Pacer writes at most one line a minute about each key, so that no server or person fills the log.
type Pacer struct{ pace *pace.Pace }

// NewPacer returns a pacer for one kind of line.
func NewPacer() *Pacer { return &Pacer{pace.New(1, time.Minute)} }

// Warn begins a line about key. When the line is to be left out it returns nil, whose methods do nothing.
func (p *Pacer) Warn(log zerolog.Logger, key string) *zerolog.Event {
	leftOut, ok := p.pace.Take(key)
	if !ok {
		return nil
	}
	e := log.Warn()
	if leftOut > 0 {
		e = e.Uint64(LeftOut, leftOut)
	}
	return e
}

package logs

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/pace"
)

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

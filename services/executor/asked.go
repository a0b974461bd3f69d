package executor

import (
	"context"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
)

// asked is the bus as changes ask it. It implements engine.Bus.
type asked struct {
	conn    *bus.Conn
	address topology.ServerAddress
	x       *Executor
}

// Connected reports whether the bus can be reached.
func (a asked) Connected() bool { return a.conn.Connected() }

// Answers reads the server's document, over a new connection where the old one is lost: that one may wait for a minute
// before it tries again. A bus that refuses the server answers.
func (a asked) Answers(ctx context.Context) (err error) {
	if a.conn.Connected() {
		_, err = link.Document(ctx, a.conn, a.address)
	} else {
		_, err = a.x.readDocument(ctx)
	}
	if fault.Is(err, fault.Denied) {
		return nil
	}
	return err
}

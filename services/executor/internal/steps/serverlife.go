package steps

import (
	"context"
	"errors"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
)

var errServerDead = refuse(code.ServerDead, "the server is dead")

// ServerLife ends when a document says that the server is dead.
type ServerLife struct {
	ctx context.Context
	end context.CancelFunc
}

// NewServerLife returns the life of a server that is alive.
func NewServerLife() *ServerLife {
	l := &ServerLife{}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// End ends the life: changes that only bring something are given up.
func (l *ServerLife) End() { l.end() }

// Over reports whether the server is dead.
func (l *ServerLife) Over() bool { return l.ctx.Err() != nil }

// While returns a context that is done as well when the server is dead, unless the change goes
// on then: a removal, and an executor that passed its trial.
func (l *ServerLife) While(ctx context.Context, r *change.Record) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if r.Removes() || r.TrialPassed {
		return ctx, func() { cancel(nil) }
	}
	if l.ctx.Err() != nil {
		cancel(errServerDead)
	}
	stop := context.AfterFunc(l.ctx, func() { cancel(errServerDead) })
	return ctx, func() { stop(); cancel(nil) }
}

// Ended reports whether a context of While is done because the server is dead.
func Ended(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errServerDead) }

// Cause returns the server's death where that is behind an error, and otherwise the error.
// ErrJournal and ErrStopped are other matters.
func Cause(ctx context.Context, err error) error {
	if err != nil && Ended(ctx) && !errors.Is(err, ErrJournal) && !errors.Is(err, ErrStopped) {
		return errServerDead
	}
	return err
}

package agentlog

import (
	"context"
	"errors"
	"time"

	logv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/log/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

const (
	// followWait is how long one request waits for output.
	followWait = 10 * time.Second
	// partEvery is the shortest time between two parts. A server that answers faster is one that does not keep to its
	// own bounds.
	partEvery = 50 * time.Millisecond
	// mostBytes is more than a server keeps of an agent; a reading without --follow ends there.
	mostBytes = 64 << 20
	// reopenWithin bounds how long a follower waits for an executor that is started again.
	reopenWithin = 30 * time.Second
	reopenEvery  = time.Second
)

// read prints the output from the start of a request on.
func read(ctx context.Context, env *cli.Env, f logFlags, q *registryv1.OpenLogRequest, p *printer) error {
	c, err := env.Client(ctx)
	if err != nil {
		return err
	}
	l, err := c.OpenLog(ctx, q)
	if err != nil {
		return ended(ctx, err)
	}
	l.Marks = f.times
	if !f.follow {
		return ended(ctx, readKept(ctx, env, c, q, l, p))
	}
	for {
		if err = follow(ctx, env, l, p); ctx.Err() != nil {
			return ended(ctx, err)
		}
		if !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Unavailable) {
			return err
		}
		if l, err = reopen(ctx, env, c, q, l, err); err != nil {
			return ended(ctx, err)
		}
	}
}

// ended returns why a reading ended; Ctrl-C is the normal end of following.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// readKept prints what was there when the session was opened. A session that ended while its reader did not read, as in
// a pager, is continued in another one.
func readKept(
	ctx context.Context, env *cli.Env, c *client.Client, q *registryv1.OpenLogRequest, l *client.Log, p *printer,
) error {
	for end, begun := l.End(), l.Position(); l.Position() < end; {
		part, err := l.Read(ctx, 0)
		if fault.RefusalOf(err).GetCode() == code.LogNotOpen && l.Position() != begun {
			if l, err = reopen(ctx, env, c, q, l, err); err != nil {
				return err
			}
			begun = l.Position()
			continue
		}
		if err != nil {
			return err
		}
		if err := p.print(env, part); err != nil {
			return err
		}
		if len(part.Data) == 0 {
			break
		}
		if p.printed > mostBytes {
			return fault.New(fault.Internal, "server %s sent more output than a server keeps; reading ended",
				l.Server())
		}
		if err := cli.Pause(ctx, partEvery); err != nil {
			return err
		}
	}
	return p.end()
}

// follow prints until an error.
func follow(ctx context.Context, env *cli.Env, l *client.Log, p *printer) error {
	for {
		part, err := l.Read(ctx, followWait)
		if err != nil {
			return err
		}
		if err := p.print(env, part); err != nil {
			return err
		}
		if err := cli.Pause(ctx, partEvery); err != nil {
			return err
		}
	}
}

// reopen opens another session where one ended, and waits for an executor that does not answer yet. The ledger records
// it as well.
func reopen(
	ctx context.Context, env *cli.Env, c *client.Client, q *registryv1.OpenLogRequest, was *client.Log, why error,
) (*client.Log, error) {
	env.Say("the session with %s ended (%s); opening another one, which goes on where it ended", was.Server(),
		reason(why))
	q.Start = &logv1.Start{Position: was.Position()}
	marks := was.Marks
	until, cancel := context.WithTimeout(ctx, reopenWithin)
	defer cancel()
	for {
		if err := cli.Pause(until, reopenEvery); err != nil && ctx.Err() != nil {
			return nil, err
		}
		l, err := c.OpenLog(ctx, q)
		if err == nil {
			l.Marks = marks
		}
		if err == nil || !fault.Is(err, fault.Unavailable) || until.Err() != nil {
			return l, err
		}
	}
}

// reason returns why a session ended.
func reason(why error) string {
	if errors.Is(why, context.DeadlineExceeded) {
		return "no answer"
	}
	return why.Error()
}

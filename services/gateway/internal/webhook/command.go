package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/nearest"
)

// Command is what a person asks of webhooks on their host, beside the process that runs them. Of Test, Dead, Resend and
// RotateKey one at most is set; without any of them it checks the file of routes and lists the routes.
type Command struct {
	File, Dir          string
	Test, Dead, Resend string // the name of a route
	RotateKey          bool
	Out                io.Writer
}

// Run does what is asked.
func (c Command) Run(ctx context.Context) error {
	s, err := readFile(c.File)
	if err != nil {
		return err
	}
	switch {
	case c.RotateKey:
		return c.rotate()
	case c.Test != "":
		return c.with(s, c.Test, func(r *route) error { return c.test(ctx, r) })
	case c.Dead != "":
		return c.with(s, c.Dead, c.listDead)
	case c.Resend != "":
		return c.with(s, c.Resend, func(r *route) error { return c.resend(ctx, s, r) })
	}
	return c.list(s)
}

// with calls do with the route of a name.
func (c Command) with(s *settings, name string, do func(*route) error) error {
	r := s.named(name)
	if r == nil {
		return fault.Refusef(fault.NotFound, code.NotFound, "%s has no route %q (%d searched)", c.File, name,
			len(s.routes)).Near(nearest.Name(name, func(yield func(string) bool) {
			for i := 0; i < len(s.routes) && yield(s.routes[i].name); i++ {
			}
		}))
	}
	return do(r)
}

func (c Command) rotate() error {
	keys, err := rotateKeys(c.Dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "The new key signs from now on, beside the one before. Receivers add:\n%s\n", publicKey(keys[0]))
	return nil
}

// list prints the routes with their states, and the public keys.
func (c Command) list(s *settings) error {
	w := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROUTE\tTARGET\tSTATE\tSEQUENCE\tLAG\tDELIVERED\tLAST\tDEAD\tERROR")
	for i := range s.routes {
		r := &s.routes[i]
		p, found, err := readPlace(c.Dir, r.name)
		state, text := stateOf(p, found, s.digest), errorOf(p)
		if err != nil {
			state, text = cutOff, err.Error()
		}
		files, err := letterFiles(c.Dir, r.name)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%d\t%s\t%d\t%s\n", r.name, hostOf(r), state, p.Sequence, lagOf(p),
			p.Delivered, stampOf(p.DeliveredAt), len(files), text)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	keys, err := readKeys(c.Dir)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.Out, "\nDeliveries are signed with:")
	for _, k := range keys {
		fmt.Fprintln(c.Out, publicKey(k))
	}
	_, err = readUser(s.as)
	return err
}

// stateOf returns the state of a route that its file shows.
func stateOf(p place, found bool, version string) string {
	switch {
	case !found:
		return "new"
	case p.DisabledBy == version:
		return disabled
	case !p.FailingSince.IsZero():
		return retrying
	}
	return running
}

func lagOf(p place) string {
	if p.WaitingSince.IsZero() {
		return "-"
	}
	return time.Since(p.WaitingSince).Round(time.Second).String()
}

func stampOf(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}

// errorOf says why the last attempt failed, and that the ledger did not continue.
func errorOf(p place) string {
	text := "-"
	if p.Error != "" {
		text = stampOf(p.ErrorAt) + " " + p.Error
	}
	if p.Resets > 0 {
		text += fmt.Sprintf(" (reset %s: the ledger did not continue)", stampOf(p.ResetAt))
	}
	return text
}

// test sends one event that is no fact.
func (c Command) test(ctx context.Context, r *route) error {
	e, m := testEvent(time.Now(), ident.New())
	return c.send(ctx, r, e, m)
}

// send sends once, and prints what the target answered.
func (c Command) send(ctx context.Context, r *route, e client.Event, m message) error {
	keys, err := readKeys(c.Dir)
	if err != nil {
		return err
	}
	hc := r.newClient()
	defer hc.CloseIdleConnections()
	got, err := r.send(ctx, hc, keys, usual.attempt, time.Now(), e, m)
	switch {
	case err != nil:
		return err
	case slices.Contains(hopeless, got.status):
		return fmt.Errorf("%w: %s at %s: %s: %s", errHopeless, r.name, hostOf(r), got.trouble(), clean(got.text))
	case got.err != nil || got.status/100 != 2:
		text := got.trouble()
		if got.text != "" {
			text += ": " + clean(got.text)
		}
		return fault.New(fault.Unavailable, "%s at %s did not take it: %s", r.name, hostOf(r), text)
	}
	fmt.Fprintf(c.Out, "%s at %s took %s: %s\n", r.name, hostOf(r), m.ID, got.trouble())
	return nil
}

func (c Command) listDead(r *route) error {
	all, err := letters(c.Dir, r.name)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SEQUENCE\tFACT\tKEY\tSINCE\tREASON")
	for _, l := range all {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", l.Sequence, l.Fact, l.Key, stampOf(l.At), l.Reason)
	}
	return w.Flush()
}

// errHopeless is the error of a delivery whose content a target refuses.
var errHopeless = errors.New("the target refuses the content")

// resend sends the dead letters of a route again, the oldest first, and forgets those that its target took. One whose
// content it refuses stays, and keeps no other one back.
func (c Command) resend(ctx context.Context, s *settings, r *route) error {
	who, err := readUser(s.as)
	if err != nil {
		return err
	}
	bus, err := client.Connect(ctx, client.Options{Context: who})
	if err != nil {
		return err
	}
	defer bus.Close()
	return c.resendAll(ctx, bus, s, r)
}

func (c Command) resendAll(ctx context.Context, bus *client.Client, s *settings, r *route) error {
	all, err := letters(c.Dir, r.name)
	if err != nil {
		return err
	}
	var refused error
	for i, l := range all {
		err := c.resendOne(ctx, bus, s, r, l)
		if errors.Is(err, errHopeless) {
			refused = errors.Join(refused, fmt.Errorf("fact %d: %w", l.Sequence, err))
			continue
		}
		if err != nil {
			return errors.Join(refused,
				fmt.Errorf("fact %d, after %d of %d dead letters: %w", l.Sequence, i, len(all), err))
		}
		if err := os.Remove(letterFile(c.Dir, r.name, l.Sequence)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if len(all) == 0 {
		fmt.Fprintf(c.Out, "%s has no dead letters\n", r.name)
	}
	return refused
}

func (c Command) resendOne(ctx context.Context, bus *client.Client, s *settings, r *route, l letter) error {
	one := client.Query{From: l.Sequence, Below: l.Sequence + 1, Gaps: true}
	for e, err := range bus.Events(ctx, one) {
		if err != nil {
			return err
		}
		if e.ID != l.ID {
			break
		}
		a, err := new(lookup).of(ctx, bus, e)
		if err != nil {
			return err
		}
		return c.send(ctx, r, e, messageOf(e, a, s.console))
	}
	fmt.Fprintf(c.Out, "the ledger no longer has fact %d; it was set back\n", l.Sequence)
	return nil
}

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/version"
)

// Upgrader carries out upgrades of one unit.
type Upgrader struct {
	Unit   string
	Data   string        // the data directory of its garrisond
	Dir    string        // of root: the record, and what is kept to go back
	Within time.Duration // how long a program may take until it serves
	Soak   time.Duration // how long it must then serve
	Reason string        // of the person
	Log    io.Writer
}

// ErrNotServing is the error of an upgrade that ended with the program before, or with none.
var ErrNotServing = errors.New("the installed program does not run")

// Plan prints what an upgrade would do, and changes nothing.
func (u Upgrader) Plan(ctx context.Context) error {
	r, _, err := u.compare(ctx)
	if err != nil || r == nil {
		return err
	}
	fmt.Fprintf(u.Log, "plan: %s goes from %s to %s\n"+
		"  1. %s rehearses on %s; nothing is changed if that fails\n"+
		"  2. %s writes a backup\n"+
		"  3. %s is restarted; agents run on\n"+
		"  4. %s must serve within %s, and for %s then; otherwise %s is installed and started again\n",
		u.Unit, r.From.Version, r.To.Version, r.To.Version, u.Data, r.From.Version, u.Unit, r.To.Version, u.Within,
		u.Soak, r.From.Version)
	return nil
}

// Run carries out an upgrade to the program that is installed, or continues the last one.
func (u Upgrader) Run(ctx context.Context) error {
	unlock, err := u.lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, err := u.store().load()
	if err != nil {
		return err
	}
	if r == nil || r.ended() {
		if r, err = u.begin(ctx); r == nil {
			return err
		}
	}
	if r.State == Serving {
		return fmt.Errorf("the upgrade to %s is not finished: finish it or go back first, "+
			"garrisond upgrade --finish or --back", r.To.Version)
	}
	return u.drive(ctx, r)
}

// Back goes back to the program before the last upgrade, or continues to do so.
func (u Upgrader) Back(ctx context.Context) error {
	unlock, err := u.lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, err := u.last()
	if err != nil {
		return err
	}
	if r.State == Serving { // a program that was not called back yet has not been asked whether it can read the data
		if err := u.rehearse(ctx, r, u.store().kept(r)); err != nil {
			return fmt.Errorf("%s cannot go back: %w; what %s recorded since would be lost: restore a backup instead",
				u.Unit, err, r.To.Version)
		}
	}
	if r.State != Returning {
		if err := u.move(r, calledBack, u.Reason); err != nil {
			return err
		}
	}
	if err := u.drive(ctx, r); r.State != Back {
		return err
	}
	fmt.Fprintf(u.Log, "done: %s serves again\n", r.From.Version)
	return nil
}

// Finish deletes what the last upgrade kept to go back.
func (u Upgrader) Finish(context.Context) error {
	unlock, err := u.lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, err := u.last()
	if err != nil {
		return err
	}
	if r.State != Finished {
		if err := u.move(r, finished, u.Reason); err != nil {
			return err
		}
	}
	return u.store().clear()
}

// Show prints the last upgrade.
func (u Upgrader) Show(context.Context) error {
	r, err := u.last()
	if err != nil {
		return err
	}
	fmt.Fprintf(u.Log, "upgrade %s by %s: %s to %s, %s\n", r.ID, r.Actor, r.From.Version, r.To.Version, r.State)
	if r.Reason != "" {
		fmt.Fprintf(u.Log, "  reason: %s\n", r.Reason)
	}
	for _, s := range r.Steps {
		fmt.Fprintf(u.Log, "  %s  %-9s %s\n", s.At.UTC().Format(time.DateTime), s.State, s.Event)
		if s.Text != "" {
			fmt.Fprintf(u.Log, "    %s\n", s.Text)
		}
	}
	if r.State == Serving {
		fmt.Fprint(u.Log, next)
	}
	return nil
}

func (u Upgrader) store() store { return store(u.Dir) }
func (u Upgrader) unit() unit   { return unit(u.Unit) }

// last returns the last upgrade. Without one it is an error.
func (u Upgrader) last() (*Record, error) {
	r, err := u.store().load()
	if err == nil && r == nil {
		err = fmt.Errorf("there was no upgrade yet: %s has no record", u.Dir)
	}
	return r, err
}

// lock keeps other upgrades out.
func (u Upgrader) lock() (unlock func(), err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("an upgrade needs root; run it with sudo")
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return nil, errors.New("an upgrade needs systemd, which did not start this machine; do its steps by hand: " +
			"garrisond backup, garrisond rehearse with the new program, and a restart")
	}
	if err := os.MkdirAll(u.Dir, 0o711); err != nil { // the unit's user reaches what lies below
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(u.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("another upgrade of %s is under way: %w", u.Unit, err)
	}
	return func() { _ = f.Close() }, nil
}

// compare compares the program that runs with the one that is installed. It returns no record, and no error, when they
// are the same.
func (u Upgrader) compare(ctx context.Context) (*Record, int, error) {
	pid, err := u.unit().main(ctx)
	if err != nil {
		return nil, 0, err
	}
	r := &Record{ID: ident.New(), Actor: actor(), Reason: u.Reason, State: Planned}
	if r.Path, err = u.unit().path(ctx); err != nil {
		return nil, 0, err
	}
	if r.From, err = programAt(ctx, executable(pid)); err != nil {
		return nil, 0, err
	}
	if r.To, err = programAt(ctx, r.Path); err != nil {
		return nil, 0, err
	}
	if r.From == r.To {
		fmt.Fprintf(u.Log, "nothing to do: %s runs %s, which is installed in %s\n", u.Unit, r.From.Version, r.Path)
		return nil, 0, nil
	}
	if version.Newer(r.From.Version, r.To.Version) {
		return nil, 0, fmt.Errorf("%s in %s is older than %s, which runs; install a newer one, or go back with "+
			"garrisond upgrade --back", r.To.Version, r.Path, r.From.Version)
	}
	return r, pid, nil
}

// begin records a new upgrade. The program that runs is kept before there is a record, because it is nowhere else.
func (u Upgrader) begin(ctx context.Context) (*Record, error) {
	r, pid, err := u.compare(ctx)
	if err != nil || r == nil {
		return nil, err
	}
	s := u.store()
	if err := s.clear(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(s.kept(r)), 0o711); err != nil {
		return nil, err
	}
	if err := copyProgram(executable(pid), s.kept(r)); err != nil {
		return nil, err
	}
	if err := is(s.kept(r), r.From); err != nil {
		return nil, fmt.Errorf("%s was started again meanwhile; try again: %w", u.Unit, err)
	}
	fmt.Fprintf(u.Log, "upgrade %s: %s runs %s; %s is installed in %s\n", r.ID, u.Unit, r.From.Version, r.To.Version,
		r.Path)
	return r, s.save(r)
}

// move goes to the next state, on the disk.
func (u Upgrader) move(r *Record, e Event, text string) error {
	if err := r.move(e, text, time.Now()); err != nil {
		return err
	}
	return u.store().save(r)
}

// actor names who asks: the person behind sudo.
func actor() string {
	if name := os.Getenv("SUDO_USER"); name != "" {
		return name
	}
	if who, err := user.Current(); err == nil {
		return who.Username
	}
	return strconv.Itoa(os.Getuid())
}

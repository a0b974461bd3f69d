package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
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

// DefaultUnit and DefaultDir are the defaults of --unit and --record.
const (
	DefaultUnit = "garrisond.service"
	DefaultDir  = "/var/lib/garrisond-upgrade"
)

// ErrNotServing is the error of an upgrade that ended with the program before, or with none.
var ErrNotServing = errors.New("the installed program does not run")

// Plan prints what an upgrade would do, and changes nothing.
func (u Upgrader) Plan(ctx context.Context) error {
	if r, err := u.load(); err != nil || r != nil && !r.ended() {
		return errors.Join(err, u.unfinished(r))
	}
	r, _, err := u.compare(ctx)
	if err != nil || r == nil {
		return err
	}
	fmt.Fprintf(u.Log, "plan: %s goes from %s to %s\n"+
		"  1. %s rehearses on %s; if that fails, %s is installed again\n"+
		"  2. %s writes a backup\n"+
		"  3. %s is restarted; agents run on\n"+
		"  4. %s must serve within %s, and for %s then; otherwise %s is installed and started again\n",
		u.Unit, r.From.Version, r.To.Version, r.To.Version, u.Data, r.From.Version, r.From.Version, u.Unit,
		r.To.Version, u.Within, u.Soak, r.From.Version)
	return nil
}

// Run carries out an upgrade to the program that is installed, or continues the last one.
func (u Upgrader) Run(ctx context.Context) error {
	unlock, err := u.lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, err := u.load()
	if err != nil {
		return err
	}
	if r == nil || r.ended() {
		if r, err = u.begin(ctx); r == nil || err != nil {
			return err
		}
	}
	if r.State == Serving {
		return u.unfinished(r)
	}
	return u.drive(ctx, r)
}

// Back goes back to the program before the last upgrade, or continues to do so. While the new program serves, the one
// before must show first that it can read what was recorded since. A control plane that is down has nothing to lose.
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
	if r.State == Serving {
		if _, err := u.serves(ctx, r.To, 0); err == nil {
			if err := u.rehearse(ctx, r, store(u.Dir).kept(r)); err != nil {
				return fmt.Errorf("%s runs on: %s cannot take over: %w; to lose what was recorded since, restore %s",
					r.To.Version, r.From.Version, err, store(u.Dir).backup(r))
			}
		}
	}
	if r.State != Returning {
		if err := u.move(r, calledBack, u.Reason); err != nil {
			return err
		}
	}
	return u.drive(ctx, r)
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
	return store(u.Dir).clear()
}

// Show prints the last upgrade.
func (u Upgrader) Show(context.Context) error {
	r, err := u.last()
	if err != nil {
		return err
	}
	fmt.Fprintf(u.Log, "upgrade %s of %s by %s: %s to %s, %s\n", r.ID, r.Unit, r.Actor, r.From.Version, r.To.Version,
		r.State)
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
		fmt.Fprint(u.Log, u.next())
	}
	return nil
}

// load returns the last upgrade of this unit; nil before the first.
func (u Upgrader) load() (*Record, error) {
	r, err := store(u.Dir).load()
	if err == nil && r != nil && (r.Unit != u.Unit || r.Data != u.Data) {
		err = fmt.Errorf("%s is of %s with the data in %s; pass --unit and --data of that, or another --record",
			store(u.Dir).record(), r.Unit, r.Data)
	}
	return r, err
}

// last returns the last upgrade of this unit. Without one it is an error.
func (u Upgrader) last() (*Record, error) {
	r, err := u.load()
	if err == nil && r == nil {
		err = fmt.Errorf("there was no upgrade yet: %s has no record", u.Dir)
	}
	return r, err
}

// unfinished is the error of an upgrade that would begin before the last one has ended; nil without one.
func (u Upgrader) unfinished(r *Record) error {
	switch {
	case r == nil || r.ended():
		return nil
	case r.State == Serving:
		return fmt.Errorf("the upgrade to %s is not finished; %s", r.To.Version, u.next())
	}
	return fmt.Errorf("an upgrade to %s is %s; to continue: %s", r.To.Version, r.State, u.command(""))
}

// command returns the command line of an upgrade of this unit.
func (u Upgrader) command(action string) string {
	line := "garrisond upgrade --data " + u.Data
	if u.Unit != DefaultUnit {
		line += " --unit " + u.Unit
	}
	if u.Dir != DefaultDir {
		line += " --record " + u.Dir
	}
	return strings.TrimSpace(line + " " + action)
}

// next says what a person can do about an upgrade whose program serves.
func (u Upgrader) next() string {
	return "to finish: " + u.command("--finish") + "\nto go back: " + u.command("--back") + "\n"
}

// lock keeps other upgrades of the unit out. A terminal that is closed does not end this one: from the restart on, it
// is what goes back.
func (u Upgrader) lock() (unlock func(), err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("an upgrade needs root; run it with sudo")
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return nil, errors.New("an upgrade needs systemd, which did not start this machine; do its steps by hand: " +
			"garrisond backup, garrisond rehearse with the new program, and a restart")
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	syscall.Umask(0o022) // the unit's user runs what is kept, and what is installed
	if err := os.MkdirAll(u.Dir, 0o711); err != nil {
		return nil, err
	}
	info, err := os.Stat(u.Dir)
	if err != nil {
		return nil, err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || owner.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s can be written by others than root", u.Dir)
	}
	path := "/run/garrisond-upgrade-" + strings.ReplaceAll(u.Unit, "/", "-") + ".lock"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
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
	pid, err := unit(u.Unit).main(ctx)
	if err != nil {
		return nil, 0, err
	}
	r := &Record{ID: ident.New(), Actor: actor(), Reason: u.Reason, Unit: u.Unit, Data: u.Data, State: Planned}
	if r.Path, err = unit(u.Unit).path(ctx); err != nil {
		return nil, 0, err
	}
	if r.Path, err = filepath.EvalSymlinks(r.Path); err != nil {
		return nil, 0, err
	}
	if r.From, err = programAt(ctx, executable(pid)); err != nil {
		return nil, 0, err
	}
	if r.To, err = programAt(ctx, r.Path); err != nil {
		return nil, 0, err
	}
	if r.Args, err = arguments(pid); err != nil {
		return nil, 0, err
	}
	if data := dataOf(r.Args); data != "" && data != u.Data {
		return nil, 0, fmt.Errorf("%s runs with the data in %s, not in %s", u.Unit, data, u.Data)
	}
	if r.From == r.To {
		if _, err := u.serves(ctx, r.From, 0); err != nil {
			return nil, 0, fmt.Errorf("%s runs %s, which is installed, and does not serve: %w", u.Unit, r.From.Version,
				err)
		}
		fmt.Fprintf(u.Log, "nothing to do: %s runs %s, which is installed in %s\n", u.Unit, r.From.Version, r.Path)
		return nil, 0, nil
	}
	if version.Newer(r.From.Version, r.To.Version) {
		return nil, 0, fmt.Errorf("%s in %s is older than %s, which runs; install a newer one, or go back: %s",
			r.To.Version, r.Path, r.From.Version, u.command("--back"))
	}
	return r, pid, nil
}

// begin records a new upgrade. The program that runs is kept before there is a record, because it is nowhere else.
func (u Upgrader) begin(ctx context.Context) (*Record, error) {
	r, pid, err := u.compare(ctx)
	if err != nil || r == nil {
		return nil, err
	}
	room, err := os.CreateTemp(filepath.Dir(r.Path), ".garrisond-*")
	if err != nil {
		return nil, fmt.Errorf("%s could not be installed again: %w", r.From.Version, err)
	}
	if err := errors.Join(room.Close(), os.Remove(room.Name())); err != nil {
		return nil, err
	}
	s := store(u.Dir)
	if err := s.clear(); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Dir(s.kept(r)), 0o711); err != nil {
		return nil, err
	}
	if err := copyProgram(executable(pid), s.kept(r), r.From); err != nil {
		return nil, fmt.Errorf("%s was started again meanwhile; try again: %w", u.Unit, err)
	}
	fmt.Fprintf(u.Log, "upgrade %s: %s runs %s; %s is installed in %s\n", r.ID, u.Unit, r.From.Version, r.To.Version,
		r.Path)
	return r, s.save(r)
}

// dataOf returns the data directory that arguments name; empty when they name none.
func dataOf(args []string) string {
	for n, a := range args {
		name, value, found := strings.Cut(strings.TrimLeft(a, "-"), "=")
		switch {
		case name != "data" || !strings.HasPrefix(a, "-"):
		case found:
			return filepath.Clean(value)
		case n+1 < len(args):
			return filepath.Clean(args[n+1])
		}
	}
	return ""
}

// move goes to the next state, on the disk.
func (u Upgrader) move(r *Record, e Event, text string) error {
	if err := r.move(e, text, time.Now()); err != nil {
		return err
	}
	return store(u.Dir).save(r)
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

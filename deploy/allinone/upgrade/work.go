package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/garrison-fleet/garrison/deploy/allinone"
)

var (
	// errOvertaken is the error of work that came too late: after a crash, a reboot, or what a person did.
	errOvertaken = errors.New("something else has restarted the unit with the installed program")
	// errWait is the error of work that cannot be done now. The upgrade stays as it is.
	errWait = errors.New("the upgrade waits")
)

// drive does the work of one state after the other, until a person has to decide, or nothing is left.
func (u Upgrader) drive(ctx context.Context, r *Record) error {
	for {
		work := u.work(r.State)
		if work == nil {
			return u.said(r)
		}
		err := work(ctx, r)
		switch {
		case ctx.Err() != nil:
			action := ""
			if r.State == Returning {
				action = "--back"
			}
			return fmt.Errorf("interrupted while it was %s; to continue: %s", r.State, u.command(action))
		case errors.Is(err, errWait):
			return err
		}
		if err := u.end(r, err); err != nil {
			return err
		}
	}
}

// work returns the work of a state; nil when it has none.
func (u Upgrader) work(s State) func(context.Context, *Record) error {
	switch s {
	case Planned:
		return u.beforeRestart(func(ctx context.Context, r *Record) error { return u.rehearse(ctx, r, r.Path) })
	case Rehearsed:
		return u.beforeRestart(u.backup)
	case Saved:
		return u.beforeRestart(func(ctx context.Context, r *Record) error {
			fmt.Fprintf(u.Log, "restarting %s with %s\n", u.Unit, r.To.Version)
			return unit(u.Unit).restart(ctx)
		})
	case Started:
		return func(ctx context.Context, r *Record) error { return u.prove(ctx, r.To) }
	case Returning:
		return u.goBack
	}
	return nil
}

// end records how the work of a state ended.
func (u Upgrader) end(r *Record, err error) error {
	event, text := passed, ""
	if errors.Is(err, errOvertaken) {
		event, text = overtaken, err.Error()
	} else if err != nil {
		event, text = failed, err.Error()
	}
	if text != "" {
		fmt.Fprintf(u.Log, "%s: %s\n", r.State, text)
	}
	err = u.move(r, event, text)
	if err != nil && r.State == Returning { // a full disk is a reason to go back, not to stay
		fmt.Fprintf(u.Log, "the record cannot be written, and the program before is installed all the same: %v\n", err)
		return nil
	}
	if err == nil && r.State == Refused {
		err = u.installBefore(r)
	}
	return err
}

// said prints how an upgrade stands, and returns an error unless the program runs that was asked for.
func (u Upgrader) said(r *Record) error {
	switch r.State {
	case Serving:
		fmt.Fprintf(u.Log, "done: %s serves\n%s", r.To.Version, u.next())
	case Refused:
		return fmt.Errorf("%w: the upgrade is refused, %s was not restarted, and %s is installed again; to try "+
			"again, install %s again", ErrNotServing, u.Unit, r.From.Version, r.To.Version)
	case Back:
		if !r.was(calledBack) {
			return fmt.Errorf("%w: %s is installed again, and serves", ErrNotServing, r.From.Version)
		}
		fmt.Fprintf(u.Log, "done: %s serves again\n", r.From.Version)
	case Stuck:
		return fmt.Errorf("%w, and %s could not be brought back: %s; see journalctl -u %s; the program is kept in %s "+
			"and a backup in %s; to try again: %s", ErrNotServing, r.From.Version, r.Steps[len(r.Steps)-1].Text, u.Unit,
			store(u.Dir).kept(r), store(u.Dir).backup(r), u.command("--back"))
	}
	return nil
}

// beforeRestart does work only while the program before runs, and the one that was compared is installed.
func (u Upgrader) beforeRestart(work func(context.Context, *Record) error) func(context.Context, *Record) error {
	return func(ctx context.Context, r *Record) error {
		if err := is(r.Path, r.To); err != nil {
			return fmt.Errorf("another program was installed meanwhile: %w", err)
		}
		stopped, err := unit(u.Unit).stopped(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w; to continue: %s", errWait, err, u.command(""))
		}
		if stopped {
			return fmt.Errorf("%w: %s is stopped; start it, and continue: %s", errWait, u.Unit, u.command(""))
		}
		if pid, err := unit(u.Unit).main(ctx); err != nil || is(executable(pid), r.From) != nil {
			return errOvertaken
		}
		return work(ctx, r)
	}
}

// proofOfRehearsal begins the line with which a rehearsal says that it has passed.
const proofOfRehearsal = "good: "

// rehearse has a program show whether it can take over, with the arguments of the one that ran before.
func (u Upgrader) rehearse(ctx context.Context, r *Record, program string) error {
	args := r.Args
	if len(args) > 0 && args[0] == "run" {
		args = args[1:]
	}
	text, err := unit(u.Unit).run(ctx, u.Log, []string{u.Data}, program, append([]string{"rehearse"}, args...)...)
	if err == nil && !strings.HasPrefix(lastLine(text), proofOfRehearsal) {
		err = errors.New("it ended too early")
	}
	if err != nil {
		return fmt.Errorf("the rehearsal: %w: %s", err, lastLine(text))
	}
	return nil
}

// backup has the program before write a backup, which then is root's.
func (u Upgrader) backup(ctx context.Context, r *Record) error {
	owner, err := os.Stat(u.Data)
	if err != nil {
		return err
	}
	ids, ok := owner.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s has no owner", u.Data)
	}
	s := store(u.Dir)
	if err := errors.Join(os.RemoveAll(s.written(r)), os.RemoveAll(s.backup(r))); err != nil { // of one that was killed
		return err
	}
	if err := os.Mkdir(s.written(r), 0o700); err != nil {
		return err
	}
	if err := os.Chown(s.written(r), int(ids.Uid), int(ids.Gid)); err != nil {
		return err
	}
	written := filepath.Join(s.written(r), filepath.Base(s.backup(r)))
	may := []string{u.Data, s.written(r)}
	text, err := unit(u.Unit).run(ctx, u.Log, may, s.kept(r), "backup", written, "--data", u.Data)
	if err != nil {
		return fmt.Errorf("the backup: %w: %s", err, lastLine(text))
	}
	if err := os.Rename(written, s.backup(r)); err != nil {
		return err
	}
	info, err := os.Lstat(s.backup(r))
	if err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s is no file", s.backup(r)))
	}
	fmt.Fprintf(u.Log, "backup: %s, %d KiB\n", s.backup(r), info.Size()>>10)
	return os.Lchown(s.backup(r), 0, 0)
}

// installBefore installs the program before again, unless something else has replaced the one of this upgrade.
func (u Upgrader) installBefore(r *Record) error {
	if is(r.Path, r.From) == nil {
		return nil
	}
	if r.State == Refused && is(r.Path, r.To) != nil {
		return fmt.Errorf("%s holds a third program, which the next upgrade may try", r.Path)
	}
	return copyProgram(store(u.Dir).kept(r), r.Path, r.From)
}

// goBack installs the program before, and starts it.
func (u Upgrader) goBack(ctx context.Context, r *Record) error {
	fmt.Fprintf(u.Log, "going back to %s\n", r.From.Version)
	if err := u.installBefore(r); err != nil {
		return err
	}
	if err := unit(u.Unit).restart(ctx); err != nil {
		return err
	}
	return u.prove(ctx, r.From)
}

const (
	proofPause   = 250 * time.Millisecond
	mostRestarts = 3 // that systemd makes until a program counts as one that does not start
)

// prove waits until a program serves, and has served for a while in one process.
func (u Upgrader) prove(ctx context.Context, p Program) error {
	var since time.Time
	serving, before := 0, -1
	for began := time.Now(); ; {
		pid, err := u.serves(ctx, p, serving)
		switch {
		case err != nil:
			serving = 0
		case pid != serving:
			serving, since = pid, time.Now()
		case time.Since(since) >= u.Soak:
			fmt.Fprintf(u.Log, "%s has served for %s\n", p.Version, u.Soak)
			return nil
		}
		again, unknown := unit(u.Unit).restarts(ctx)
		if unknown == nil && (before < 0 || again < before) { // systemd counts from 0 after a restart, but not at once
			before = again
		}
		switch {
		case unknown == nil && again-before >= mostRestarts:
			err = fmt.Errorf("systemd started it again %d times", again-before)
		case time.Since(began) < u.Within+u.Soak:
			err = nil
		case err == nil:
			err = fmt.Errorf("it does not run for %s", u.Soak)
		}
		if err != nil {
			return fmt.Errorf("%s does not serve: %w; it logged: %s", p.Version, err, unit(u.Unit).journal(ctx, began))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(proofPause):
		}
	}
}

// serves returns the process of the unit, if that runs a program and serves. One process is known to run it.
func (u Upgrader) serves(ctx context.Context, p Program, known int) (int, error) {
	pid, err := unit(u.Unit).main(ctx)
	if err == nil && pid != known {
		err = is(executable(pid), p)
	}
	if err == nil {
		err = unit(u.Unit).ready(ctx)
	}
	if err == nil {
		err = allinone.HealthOf(ctx, u.Data)
	}
	return pid, err
}

// lastLine returns the last line of a text, which says why a program failed.
func lastLine(text string) string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	if len(lines) == 0 {
		return "it printed nothing (systemd.exec(5) explains a status above 200)"
	}
	return lines[len(lines)-1]
}

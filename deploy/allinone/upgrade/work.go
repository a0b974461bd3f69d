package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/garrison-fleet/garrison/deploy/allinone"
)

// drive does the work of one state after the other, until a person has to decide, or nothing is left.
func (u Upgrader) drive(ctx context.Context, r *Record) error {
	for {
		var work func(context.Context, *Record) error
		switch r.State {
		case Planned:
			work = u.untilOvertaken(func(ctx context.Context, r *Record) error { return u.rehearse(ctx, r, r.Path) })
		case Rehearsed:
			work = u.untilOvertaken(u.backup)
		case Saved:
			work = u.untilOvertaken(u.restart)
		case Started:
			work = func(ctx context.Context, r *Record) error { return u.prove(ctx, r.To) }
		case Returning:
			work = u.goBack
		default:
			return u.said(r)
		}
		err := work(ctx, r)
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted while it was %s; to continue: garrisond upgrade --data %s", r.State, u.Data)
		}
		event, text := passed, ""
		switch {
		case errors.Is(err, errOvertaken):
			event, text = overtaken, err.Error()
		case err != nil:
			event, text = failed, err.Error()
		}
		if text != "" {
			fmt.Fprintf(u.Log, "%s: %s\n", r.State, text)
		}
		if err := u.move(r, event, text); err != nil {
			return err
		}
	}
}

// next says what a person can do about an upgrade whose program serves.
const next = "to finish: garrisond upgrade --finish; to go back: garrisond upgrade --back\n"

// said prints how an upgrade stands, and returns an error unless the installed program serves.
func (u Upgrader) said(r *Record) error {
	switch r.State {
	case Serving:
		fmt.Fprintf(u.Log, "done: %s serves\n%s", r.To.Version, next)
		return nil
	case Refused:
		return fmt.Errorf("%w: the upgrade is refused, nothing was changed, and %s runs on; until another program is "+
			"installed, a restart of %s starts %s", ErrNotServing, r.From.Version, u.Unit, r.To.Version)
	case Back:
		return fmt.Errorf("%w: %s is installed again, and serves", ErrNotServing, r.From.Version)
	case Stuck:
		return fmt.Errorf("%w: neither does %s, which is installed again; see journalctl -u %s, and then try "+
			"garrisond upgrade --back, or restore %s", ErrNotServing, r.From.Version, u.Unit, u.store().backup(r))
	}
	return nil
}

// errOvertaken is the error of work that came too late: after a crash, a reboot, or what a person did.
var errOvertaken = errors.New("something else has restarted the unit with the installed program")

// untilOvertaken does work only while the program before runs, and the one that was compared is installed.
func (u Upgrader) untilOvertaken(work func(context.Context, *Record) error) func(context.Context, *Record) error {
	return func(ctx context.Context, r *Record) error {
		if err := is(r.Path, r.To); err != nil {
			return fmt.Errorf("another program was installed meanwhile; begin again: %w", err)
		}
		if pid, err := u.unit().main(ctx); err != nil || is(executable(pid), r.From) != nil {
			return errOvertaken
		}
		return work(ctx, r)
	}
}

// rehearse has a program show whether it can take over, with the arguments of the one that runs.
func (u Upgrader) rehearse(ctx context.Context, _ *Record, program string) error {
	pid, err := u.unit().main(ctx)
	if err != nil {
		return err
	}
	args, err := arguments(pid)
	if err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "run" {
		args = args[1:]
	}
	if text, err := u.unit().run(ctx, u.Log, program, append([]string{"rehearse"}, args...)...); err != nil {
		return fmt.Errorf("the rehearsal: %w: %s", err, lastLine(text))
	}
	return nil
}

// backup has the program before write a backup, into a directory of the unit's user.
func (u Upgrader) backup(ctx context.Context, r *Record) error {
	owner, err := os.Stat(u.Data)
	if err != nil {
		return err
	}
	ids, ok := owner.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s has no owner", u.Data)
	}
	s := u.store()
	// A backup that was interrupted left nothing, or a whole file.
	if err := os.RemoveAll(s.written(r)); err != nil {
		return err
	}
	if err := os.Mkdir(s.written(r), 0o700); err != nil {
		return err
	}
	if err := os.Chown(s.written(r), int(ids.Uid), int(ids.Gid)); err != nil {
		return err
	}
	text, err := u.unit().run(ctx, u.Log, s.kept(r), "backup", s.backup(r), "--data", u.Data)
	if err != nil {
		return fmt.Errorf("the backup: %w: %s", err, lastLine(text))
	}
	info, err := os.Lstat(s.backup(r))
	if err != nil {
		return err
	}
	fmt.Fprintf(u.Log, "backup: %s, %d KiB\n", s.backup(r), info.Size()>>10)
	return nil
}

func (u Upgrader) restart(ctx context.Context, r *Record) error {
	fmt.Fprintf(u.Log, "restarting %s with %s\n", u.Unit, r.To.Version)
	return u.unit().restart(ctx)
}

// goBack installs the program before, and starts it.
func (u Upgrader) goBack(ctx context.Context, r *Record) error {
	kept := u.store().kept(r)
	if err := is(kept, r.From); err != nil {
		return err
	}
	fmt.Fprintf(u.Log, "going back to %s\n", r.From.Version)
	if err := copyProgram(kept, r.Path); err != nil {
		return err
	}
	if err := u.unit().restart(ctx); err != nil {
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
		again, counted := u.unit().restarts(ctx)
		if before < 0 || again < before { // systemd counts from 0 after a restart, but not at once
			before = again
		}
		switch {
		case counted == nil && again-before >= mostRestarts:
			err = fmt.Errorf("systemd started it again %d times", again-before)
		case time.Since(began) < u.Within+u.Soak:
			err = nil
		case err == nil:
			err = fmt.Errorf("it does not run for %s", u.Soak)
		}
		if err != nil {
			return fmt.Errorf("%s does not serve: %w; it logged: %s", p.Version, err, u.unit().journal(ctx))
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
	pid, err := u.unit().main(ctx)
	if err == nil && pid != known {
		err = is(executable(pid), p)
	}
	if err == nil {
		err = u.unit().ready(ctx)
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

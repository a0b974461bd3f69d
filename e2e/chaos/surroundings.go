package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
)

// coverRoot makes the root of a server read-only for a while. In every other case its executor ends with that.
func coverRoot(ctx context.Context, w *World, s Strike) (string, error) {
	for _, d := range w.disks {
		for _, server := range w.staying() {
			if server.Name != d.Whose {
				continue
			}
			what := fmt.Sprintf("root of %s read-only for %v", d.Whose, s.For.Round(100*time.Millisecond))
			if s.Pick>>32%2 == 0 {
				what += ", its executor killed before the end"
			}
			f := d.ReadOnly()
			err := f.Start()
			_ = rig.Sleep(ctx, s.For)
			if s.Pick>>32%2 == 0 {
				err = errors.Join(err, server.Executor.Kill())
			}
			return what, errors.Join(err, f.Stop(), w.revive(server.Executor))
		}
	}
	return "skipped: no root that can be read-only", nil
}

// holdPort ends the agents of a server, and listens where beacon does before it is started again.
func holdPort(ctx context.Context, w *World, s Strike) (string, error) {
	server := choose(s.Pick, w.staying())
	pids, err := server.AgentProcesses()
	if err != nil {
		return "", err
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	until := time.Now().Add(time.Second)
	for time.Now().Before(until) {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port)))
		if err != nil {
			_ = rig.Sleep(ctx, time.Millisecond)
			continue
		}
		_ = rig.Sleep(ctx, s.For)
		what := fmt.Sprintf("port of beacon on %s held for %v", server.Name, s.For.Round(100*time.Millisecond))
		return what, l.Close()
	}
	return "agents of " + server.Name + " ended; beacon had its port again before another process", nil
}

// strayFile is the file that is written beside programs.
const strayFile = "stray.log"

// stray writes a file beside the program of an agent, as an agent does that takes its directory for its own.
func stray(w *World, pick uint64) (string, error) {
	server, agent := choose(pick, w.staying()), choose(pick>>16, []string{beacon, tuner})
	err := inDirectory(server, agent, func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) })
	return fmt.Sprintf("a file beside the program of %s on %s", agent, server.Name), err
}

// dropStrays deletes those files, as a person does who saw them in a check.
func dropStrays(w *World) error {
	var errs []error
	for _, server := range w.staying() {
		images, err := filepath.Glob(filepath.Join(server.Root, "images", "*", strayFile))
		errs = append(errs, err)
		for _, path := range images {
			errs = append(errs, whileWritable(filepath.Dir(path), func() error { return os.Remove(path) }))
		}
	}
	return errors.Join(errs...)
}

// inDirectory calls a function with the path of a stray file of an agent; not for an agent that is missing.
func inDirectory(s *rig.Server, agent string, do func(path string) error) error {
	dir, err := filepath.EvalSymlinks(currentOf(s, agent))
	if err == nil {
		err = whileWritable(dir, func() error { return do(filepath.Join(dir, strayFile)) })
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil // a change took it away meanwhile
	}
	return err
}

// whileWritable makes a sealed directory writable for a function.
func whileWritable(dir string, do func() error) error {
	return errors.Join(os.Chmod(dir, 0o755), do(), os.Chmod(dir, 0o555))
}

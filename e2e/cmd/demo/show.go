package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// show is the state of the demo.
type show struct {
	fleet   *fleet.Fleet
	agent   agent
	servers []*fleet.Server
	acts    int
}

// title starts an act.
func (s *show) title(format string, args ...any) {
	s.acts++
	fmt.Printf("\n%d. %s\n", s.acts, fmt.Sprintf(format, args...))
}

func say(format string, args ...any) { fmt.Printf("   "+format+"\n", args...) }

// cli runs garrison, and prints the command and its output.
func (s *show) cli(ctx context.Context, args ...string) (string, error) {
	fmt.Printf("   $ garrison %s\n", strings.Join(args, " "))
	out, err := s.fleet.CLI(ctx, args...)
	for line := range strings.Lines(out) {
		fmt.Print("     ", line)
	}
	return out, err
}

func (s *show) startGarrison(ctx context.Context) error {
	s.title("Start Garrison: a bus with its data on disk, the registry, the image-catalog and the task-dispatcher, " +
		"in one process.")
	if err := s.fleet.Start(ctx); err != nil {
		return err
	}
	say("garrisond runs with pid %d and listens at %s", s.fleet.Garrisond.Pid(), s.fleet.URL())
	return nil
}

func (s *show) enrolServers(ctx context.Context) error {
	s.title("Enrol three servers. Each has a process of its own, a directory of its own, and credentials that reach " +
		"only its own subjects.")
	for _, name := range []string{"alpha", "bravo", "charlie"} {
		server, err := s.fleet.AddServer(ctx, name)
		if err != nil {
			return err
		}
		s.servers = append(s.servers, server)
	}
	if err := s.wait(ctx, "the servers are online", func(ctx context.Context) error {
		out, err := s.fleet.CLI(ctx, "server", "list", "-o", "json")
		if n := strings.Count(out, "PRESENCE_ONLINE"); err == nil && n != 3 {
			return fmt.Errorf("%d of 3 are online", n)
		}
		return err
	}); err != nil {
		return err
	}
	_, err := s.cli(ctx, "server", "list")
	return err
}

func (s *show) buildImages(ctx context.Context) error {
	s.title("Build two images of the agent %s from directories, import them and activate them.", s.agent.name)
	if _, err := s.cli(ctx, "agent", "create", s.agent.name, "--kind", "daemon"); err != nil {
		return err
	}
	for _, version := range s.agent.versions {
		dir := filepath.Join(s.fleet.Dir, s.agent.name+"-"+version)
		if err := s.agent.prepare(dir, version); err != nil {
			return err
		}
		file := dir + ".gimg"
		if _, err := s.cli(ctx, "image", "build", filepath.Base(dir), "-o", filepath.Base(file)); err != nil {
			return err
		}
		if _, err := s.cli(ctx, "image", "import", filepath.Base(file), "--activate"); err != nil {
			return err
		}
	}
	_, err := s.cli(ctx, "image", "list")
	return err
}

func (s *show) installFirst(ctx context.Context) error {
	s.title("Install version %s on all three servers: one intent on the bus, answered in the ledger.",
		s.agent.versions[0])
	if _, err := s.cli(ctx, "install", s.agent.name+"@"+s.agent.versions[0], "--on", "all"); err != nil {
		return err
	}
	if _, err := s.cli(ctx, "instance", "list"); err != nil {
		return err
	}
	return s.expectVersion(ctx, s.agent.versions[0])
}

func (s *show) upgrade(ctx context.Context) error {
	s.title("Upgrade to version %s, and watch it.", s.agent.versions[1])
	if _, err := s.cli(ctx, "up", s.agent.name+"@"+s.agent.versions[1], "--on", "all", "--yes"); err != nil {
		return err
	}
	return s.expectVersion(ctx, s.agent.versions[1])
}

// expectVersion compares the version that each agent answers over HTTP.
func (s *show) expectVersion(ctx context.Context, want string) error {
	for _, server := range s.servers {
		got, err := s.agent.version(ctx, server)
		if err != nil {
			return fmt.Errorf("ask the agent on %s: %w", server.Name, err)
		}
		if got != want {
			return fmt.Errorf("the agent on %s answers %q, want %q", server.Name, got, want)
		}
		say("the agent on %s, asked over HTTP, answers %q", server.Name, got)
	}
	return nil
}

func (s *show) askForWhatIsNot(ctx context.Context) error {
	s.title("Ask for a version that does not exist. Nothing changes, and the refusal says what to do.")
	_, err := s.cli(ctx, "up", s.agent.name+"@9.9.9", "--on", "all", "--yes")
	refused, ok := errors.AsType[*fleet.CLIError](err)
	if !ok {
		return fmt.Errorf("want a refusal, have: %w", errors.Join(err, errors.New("the CLI accepted it")))
	}
	say("%s", strings.TrimSpace(refused.Stderr))
	say("(exit code %d)", refused.Code)
	if !strings.Contains(refused.Stderr, code.NoMatch) {
		return errors.New("the refusal has no code NO_MATCH")
	}
	return s.expectVersion(ctx, s.agent.versions[1])
}

func (s *show) upgradeThroughACrash(ctx context.Context) error {
	back := s.agent.versions[0]
	s.title("Go back to version %s, and meanwhile kill garrisond, with the bus, and one executor, with SIGKILL.", back)
	if _, err := s.cli(ctx, "up", s.agent.name+"@"+back, "--on", "all", "--yes", "--detach"); err != nil {
		return err
	}
	victim := s.servers[1]
	say("SIGKILL to garrisond (pid %d) and to the executor of %s (pid %d)", s.fleet.Garrisond.Pid(), victim.Name,
		victim.Executor.Pid())
	if err := errors.Join(s.fleet.Garrisond.Kill(), victim.Executor.Kill()); err != nil {
		return err
	}
	say("both are dead; starting both again is all that is done")
	if err := errors.Join(s.fleet.Start(ctx), victim.Executor.Start()); err != nil {
		return err
	}
	ended := func(ctx context.Context) error { return s.converged(ctx, back, 3) }
	if err := s.wait(ctx, "the upgrade ends", ended); err != nil {
		return err
	}
	if _, err := s.cli(ctx, "task", "list", "--limit", "3"); err != nil {
		return err
	}
	return s.expectVersion(ctx, back)
}

// converged reports whether that many instances are at a version, and nothing is under way.
func (s *show) converged(ctx context.Context, version string, want int) error {
	out, err := s.fleet.CLI(ctx, "instance", "list", "--kind", "daemon", "-o", "json")
	if err != nil {
		return err
	}
	var list struct {
		Instances []struct {
			Instance struct {
				State    string
				Observed struct{ Version string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return err
	}
	n := 0
	for _, i := range list.Instances {
		if i.Instance.State == "STATE_CONVERGED" && i.Instance.Observed.Version == version {
			n++
		}
	}
	if n != want || len(list.Instances) != want {
		return fmt.Errorf("%d of %d instances are converged at %s, want %d", n, len(list.Instances), version, want)
	}
	return nil
}

func (s *show) decommission(ctx context.Context) error {
	gone := s.servers[2]
	s.title(
		"Decommission %s: its agents leave the disk, the process table and the inventory, in one step of the ledger.",
		gone.Name)
	if _, err := s.cli(ctx, "server", "decommission", gone.Name, "--yes"); err != nil {
		return err
	}
	removed := func(context.Context) error { return nothingLeft(gone) }
	if err := s.wait(ctx, "its agent's process and files are gone", removed); err != nil {
		return err
	}
	s.servers = s.servers[:2]
	say("no process of its agents runs, and no file of them is left below its directory")
	if err := s.converged(ctx, s.agent.versions[0], 2); err != nil {
		return err
	}
	_, err := s.cli(ctx, "instance", "list")
	return err
}

func nothingLeft(s *fleet.Server) error {
	pids, err := s.AgentProcesses()
	if err != nil || len(pids) > 0 {
		return errors.Join(err, fmt.Errorf("processes %v still run", pids))
	}
	for _, dir := range []string{"agents", "images", "cache"} {
		entries, err := os.ReadDir(filepath.Join(s.Root, dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if len(entries) > 0 {
			return fmt.Errorf("%s/%s still holds %s", s.Name, dir, entries[0].Name())
		}
	}
	return nil
}

func (s *show) rebuildViews(ctx context.Context) error {
	s.title("Everything that happened is in the ledger. These are its last facts; garrison events prints all, " +
		"and make demo KEEP=1 leaves everything running for that.")
	if _, err := s.cli(ctx, "events", "--limit", "12"); err != nil {
		return err
	}
	s.title("Rebuild every service's view from the ledger, in a new process, and compare it with the live one, " +
		"byte for byte.")
	for _, service := range topology.Services {
		live, err := s.liveView(ctx, service)
		if err != nil {
			return err
		}
		file := filepath.Join(s.fleet.Dir, service+".view")
		if _, err := s.fleet.View(ctx, service, live.Position, file); err != nil {
			return err
		}
		rebuilt, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !bytes.Equal(live.Canonical, rebuilt) {
			return fmt.Errorf("the view of %s at %d differs: live %d bytes, rebuilt %d", service, live.Position,
				len(live.Canonical), len(rebuilt))
		}
		say("%-15s at fact %d: %d bytes live, %d bytes rebuilt, equal", service, live.Position, len(live.Canonical),
			len(rebuilt))
	}
	return nil
}

// wait retries until done returns no error.
func (s *show) wait(ctx context.Context, what string, done func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 45*time.Second)
	defer cancel()
	for {
		err := done(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *show) sayHowToGoOn(dir string) {
	fmt.Printf(`
Everything is still running. Use it with:

   export GARRISON_CONTEXT=%s
   bin/garrison instance list

Stop it with:

   kill %d`, s.fleet.ContextFile(), s.fleet.Garrisond.Pid())
	for _, server := range s.servers {
		fmt.Printf(" %d", server.Executor.Pid())
	}
	fmt.Printf(" && rm -r %s\n", dir)
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/freeport"
)

// show is the state of the demo.
type show struct {
	fleet   *rig.Fleet
	agent   agent
	servers []*rig.Server
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
		if n := strings.Count(out, `"presence": "online"`); err == nil && n != 3 {
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
		if _, err := s.cli(ctx, "image", "build", filepath.Base(dir), "--out", filepath.Base(file)); err != nil {
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
	refused, ok := errors.AsType[*rig.CLIError](err)
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
		if i.Instance.State == "converged" && i.Instance.Observed.Version == version {
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
	removed := func(context.Context) error { return gone.NothingLeft() }
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

func (s *show) rebuildViews(ctx context.Context) error {
	s.title("Everything that happened is in the ledger. These are its last facts; garrison events prints all, " +
		"and make demo KEEP=1 leaves everything running for that.")
	if _, err := s.cli(ctx, "events", "--limit", "12"); err != nil {
		return err
	}
	s.title("Rebuild every service's view from the ledger, in a new process, and compare it with the live one, " +
		"byte for byte.")
	views, err := s.fleet.EqualViews(ctx, 1)
	for _, v := range views {
		say("%-15s at fact %d: %d bytes live, %d bytes rebuilt, equal", v.Service, v.Position, v.Bytes, v.Bytes)
	}
	return err
}

// wait retries until done returns no error.
func (s *show) wait(ctx context.Context, what string, done func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 45*time.Second)
	defer cancel()
	return rig.Until(ctx, what, done)
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

// newServer adds a server to an environment with a default: one command on the server, none on the control plane.
func (s *show) newServer(ctx context.Context) error {
	s.title("Say once what every new server of an environment runs, and make one token for many servers.")
	added, err := s.prepareNewServer(ctx)
	if err != nil {
		return err
	}
	s.title("Start a new server with an empty disk. Everything that its environment wants follows.")
	say("$ executor run --token-file garrison.token")
	started := time.Now()
	if err := added.Executor.Start(); err != nil {
		return err
	}
	answers := func(ctx context.Context) error { _, err := s.agent.version(ctx, added); return err }
	if err := s.wait(ctx, "the agent answers on the new server", answers); err != nil {
		return err
	}
	say("%.1f s later its agent answers over HTTP", time.Since(started).Seconds())
	version := s.agent.versions[0]
	s.servers = append(s.servers, added)
	converged := func(ctx context.Context) error { return s.converged(ctx, version, len(s.servers)) }
	if err := s.wait(ctx, "it is converged", converged); err != nil {
		return err
	}
	if _, err := s.cli(ctx, "instance", "list"); err != nil {
		return err
	}
	return s.expectVersion(ctx, version)
}

// prepareNewServer makes an environment with a default, a token, and a server that joins with it when it is started.
func (s *show) prepareNewServer(ctx context.Context) (*rig.Server, error) {
	port, err := freeport.Take()
	if err != nil {
		return nil, err
	}
	if _, err := s.cli(ctx, "env", "create", "prod"); err != nil {
		return nil, err
	}
	image := s.agent.name + "@" + s.agent.versions[0]
	if _, err := s.cli(ctx, "env", "default", "prod", image, "--yes"); err != nil {
		return nil, err
	}
	token, err := s.fleet.CLI(ctx, "token", "create", "prod-servers", "--uses", "100", "--env", "prod",
		"--label", "port="+strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	say("$ garrison token create prod-servers --uses 100 --env prod > garrison.token")
	host, err := os.Hostname() // a server that joins with a token for many has the name of its machine
	if err != nil {
		return nil, err
	}
	return s.fleet.NewServer(host, token, port)
}

// badVersion is a build that exits at once.
const badVersion = "9.0.0"

// rollout brings a bad build in waves, which halts on one server.
func (s *show) rollout(ctx context.Context) error {
	s.title("Roll out a build that does not start: one server first. The rollout halts, and that server goes back.")
	if err := s.importBad(ctx); err != nil {
		return err
	}
	args := []string{
		"rollout", "start", s.agent.name + "@" + badVersion, "--on", "all", "--canaries", "1", "--waves", "50%",
		"--yes",
	}
	_, err := s.cli(ctx, args...)
	halted, ok := errors.AsType[*rig.CLIError](err)
	if !ok || !strings.Contains(halted.Stderr, code.TooManyBroken) {
		return fmt.Errorf("want a rollout that halts, have: %w", errors.Join(err, errors.New("it did not halt")))
	}
	say("(exit code %d)", halted.Code)
	if err := s.expectVersion(ctx, s.agent.versions[1]); err != nil {
		return err
	}
	id := regexp.MustCompile(`rollout abort ([0-9a-f-]{13})`).FindStringSubmatch(halted.Stderr)
	if id == nil {
		return fmt.Errorf("the CLI does not say how to end the rollout: %s", halted.Stderr)
	}
	if _, err := s.cli(ctx, "rollout", "abort", id[1], "-m", "a bad build"); err != nil {
		return err
	}
	return s.rolloutUndone(ctx)
}

// rolloutUndone brings the first version in waves, and undoes that in waves.
func (s *show) rolloutUndone(ctx context.Context) error {
	s.title("Roll out version %s in waves, and undo the rollout: each server goes back to what it had.",
		s.agent.versions[0])
	first := s.agent.name + "@" + s.agent.versions[0]
	if _, err := s.cli(ctx, "rollout", "start", first, "--on", "all", "--waves", "1", "--yes"); err != nil {
		return err
	}
	if err := s.expectVersion(ctx, s.agent.versions[0]); err != nil {
		return err
	}
	id, err := s.fleet.CLI(ctx, "rollout", "list", "--state", "succeeded", "-o", "name")
	if err != nil {
		return err
	}
	if _, err := s.cli(ctx, "undo", strings.TrimSpace(id), "--yes"); err != nil {
		return err
	}
	return s.expectVersion(ctx, s.agent.versions[1])
}

// importBad builds and imports an image whose program exits with an error.
func (s *show) importBad(ctx context.Context) error {
	dir := filepath.Join(s.fleet.Dir, s.agent.name+"-"+badVersion)
	recipe := "agent: " + s.agent.name + "\nversion: " + badVersion + "\nkind: daemon\nrun:\n  command: start\n" +
		"  ready: {notify: true, timeout: 5s}\n  stop_timeout: 2s\n"
	program := filepath.Join(s.fleet.Dir, "bad")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho this build is broken >&2\nexit 3\n"), 0o700); err != nil {
		return err
	}
	if err := sample.Fill(dir, program, "start", recipe); err != nil {
		return err
	}
	if _, err := s.cli(ctx, "image", "build", filepath.Base(dir), "--out", filepath.Base(dir)+".gimg"); err != nil {
		return err
	}
	_, err := s.cli(ctx, "image", "import", filepath.Base(dir)+".gimg", "--activate")
	return err
}

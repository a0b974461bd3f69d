//go:build compose

package sessions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/e2e/rig/verify"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// compose is the containers of docker-compose.yml, under a project name of their own.
type compose struct {
	t       *testing.T
	command []string
	dir     string // the operator's files
	url     string
}

// startCompose starts every container and waits until the three servers are online.
func startCompose(t *testing.T) *compose {
	t.Helper()
	c := &compose{t: t, command: []string{"docker-compose"}, dir: scenario.ShortDir(t)}
	if exec.Command("docker", "compose", "version").Run() == nil {
		c.command = []string{"docker", "compose"}
	}
	c.command = append(c.command, "-p", fmt.Sprintf("garrison-test-%d", os.Getpid()), "-f",
		filepath.Join("..", "..", "docker-compose.yml"))
	t.Cleanup(func() {
		if c.url != "" {
			c.verify()
		}
		if t.Failed() {
			t.Log(c.run("logs", "--tail", "40"))
		}
		c.must("down", "-v", "--remove-orphans", "-t", "5")
	})
	c.must("up", "-d")
	file := filepath.Join(c.dir, "operator.json")
	c.copyOut("/data/operator.json", file)
	c.copyOut("/data/trust/services/"+topology.UserProvision+".creds", c.provisionFile())
	c.reachFromHere(file)
	c.eventually("three servers are online", func() error {
		out, err := c.cli("server", "list", "-o", "json")
		if n := strings.Count(out, `"presence": "online"`); n != 3 {
			return errors.Join(err, fmt.Errorf("%d are online", n))
		}
		return nil
	})
	return c
}

func (c *compose) provisionFile() string {
	return filepath.Join(c.dir, topology.UserProvision+".creds")
}

// copyOut copies a file out of the volume of keys, which only the container keys has. A container can be
// read although it has ended.
func (c *compose) copyOut(from, to string) {
	c.t.Helper()
	keys := strings.TrimSpace(c.must("ps", "-a", "-q", "keys"))
	if out, err := exec.Command("docker", "cp", keys+":"+from, to).CombinedOutput(); err != nil {
		c.t.Fatalf("read %s: %v: %s", from, err, out)
	}
}

// keepsApart checks that each container has only the keys that are its own.
func (c *compose) keepsApart() {
	c.t.Helper()
	holders := map[string][]string{
		"trust/keys/operator.seed":             {"access"},
		"trust/keys/tls-ca.pem":                nil,
		"trust/signer/node.json":               {"registry"},
		"trust/secrets.key":                    {"registry", "task-dispatcher"},
		"trust/tls/bus.pem":                    {"bus"},
		"trust/services/access.creds":          {"access"},
		"trust/services/registry.creds":        {"registry"},
		"trust/services/image-catalog.creds":   {"image-catalog"},
		"trust/services/task-dispatcher.creds": {"task-dispatcher"},
		"trust/services/provision.creds":       {"provision"},
		"operator.json":                        {"enrol-alpha"},
		"trust/authority.json":                 {"access", "provision"},
	}
	for _, name := range []string{
		"bus", "provision", "registry", "image-catalog", "task-dispatcher", "access", "enrol-alpha", "alpha",
	} {
		id := strings.TrimSpace(c.must("ps", "-a", "-q", name))
		for file, holders := range holders {
			err := exec.CommandContext(scenario.Within(c.t, time.Minute), "docker", "cp", id+":/data/"+file, "-").Run()
			if has := err == nil; has != slices.Contains(holders, name) {
				c.t.Errorf("container %s has %s: %v, want %v", name, file, has, !has)
			}
		}
	}
}

// verify waits until nothing is under way and checks every invariant.
func (c *compose) verify() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := bus.Dial(bus.Options{
		URL: c.url, Name: topology.UserProvision, TLS: c.tls(), Log: zerolog.Nop(), Persist: true,
		Credentials: trust.ReadCredentials(c.provisionFile()),
	})
	if err != nil {
		c.t.Error(err)
		return
	}
	defer conn.Close()
	for _, err := range verify.Await(ctx, conn, nil) {
		c.t.Error(err)
	}
}

// tls returns how the operator knows the bus.
func (c *compose) tls() bus.TLS {
	c.t.Helper()
	who, err := trust.ReadContext(filepath.Join(c.dir, "operator.json"))
	if err != nil {
		c.t.Fatal(err)
	}
	return bus.TLSOf(who)
}

// reachFromHere writes the address into the context at which this machine reaches the bus.
func (c *compose) reachFromHere(file string) {
	c.t.Helper()
	c.url = "tls://" + c.port("bus", "4222")
	data, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	known := map[string]any{}
	scenario.Must(c.t, json.Unmarshal(data, &known))
	known["url"] = c.url
	if data, err = json.Marshal(known); err != nil {
		c.t.Fatal(err)
	}
	scenario.Must(c.t, os.WriteFile(file, data, 0o600))
}

func (c *compose) run(args ...string) (string, error) {
	// Not the test's own context, which is over when the containers are taken down.
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.command[0], append(c.command[1:], args...)...)
	cmd.WaitDelay = 5 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), err
}

func (c *compose) must(args ...string) string {
	c.t.Helper()
	out, err := c.run(args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// port returns the address on this machine of a container's port.
func (c *compose) port(service, port string) string {
	c.t.Helper()
	return strings.TrimSpace(c.must("port", service, port))
}

func (c *compose) cli(args ...string) (string, error) {
	cmd := exec.CommandContext(scenario.Within(c.t, 2*time.Minute), filepath.Join(scenario.Bin, "garrison"), args...)
	cmd.Env = []string{"GARRISON_CONTEXT=" + filepath.Join(c.dir, "operator.json"), "HOME=" + c.dir}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("garrison %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), err
}

func (c *compose) ok(args ...string) string {
	c.t.Helper()
	out, err := c.cli(args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

func (c *compose) eventually(what string, done func() error) {
	c.t.Helper()
	polltest.Succeeds(c.t, what, done)
}

// image builds, imports and activates a version of beacon that listens on every interface of its container.
func (c *compose) image(version string) {
	c.t.Helper()
	cli := func(_ context.Context, args ...string) (string, error) { return c.cli(args...) }
	v := sample.Version{Version: version, Host: "0.0.0.0", Ready: "10s", Soak: "300ms"}
	scenario.Must(c.t, sample.Import(c.t.Context(), cli, scenario.Bin, c.dir, v))
}

// answers asks the agent of each server, over the port that its container publishes.
func (c *compose) answers(version string, servers ...string) {
	c.t.Helper()
	for _, s := range servers {
		c.eventually(s+" answers "+version, func() error {
			req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://"+c.port(s, "8080")+"/", nil)
			if err != nil {
				return err
			}
			req.Close = true
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			if got := strings.TrimSpace(string(body)); err != nil || got != version {
				return fmt.Errorf("it answers %q (%w)", got, err)
			}
			return nil
		})
	}
}

// The demo's scenario, against containers.
func TestCompose(t *testing.T) {
	c := startCompose(t)
	c.keepsApart()
	c.ok("agent", "create", "beacon", "--kind", "daemon")
	c.image("1.0.0")
	c.image("2.0.0")
	all := []string{"alpha", "bravo", "charlie"}
	c.ok("install", "beacon@1.0.0", "--on", "all")
	c.answers("1.0.0", all...)
	c.ok("up", "beacon@2.0.0", "--on", "all", "--yes")
	c.answers("2.0.0", all...)
	if _, err := c.cli("up", "beacon@9.9.9", "--on", "all", "--yes"); err == nil ||
		!strings.Contains(err.Error(), "NO_MATCH") {
		t.Errorf("an upgrade to a version that does not exist: %v", err)
	}

	c.ok("up", "beacon@1.0.0", "--on", "all", "--yes", "--detach")
	c.must("kill", "-s", "SIGKILL", "bus", "registry", "task-dispatcher", "bravo")
	c.must("start", "bus")
	c.must("start", "registry", "task-dispatcher", "bravo")
	c.reachFromHere(filepath.Join(c.dir, "operator.json")) // a published port changes with a restart
	c.answers("1.0.0", all...)

	c.eventually("charlie is decommissioned", func() error {
		_, err := c.cli("server", "decommission", "charlie", "--yes")
		return err
	})
	c.eventually("only two instances are left", func() error {
		out, err := c.cli("instance", "list", "--kind", "daemon", "-o", "name")
		if n := len(strings.Fields(out)); n != 2 {
			return errors.Join(err, fmt.Errorf("%d are left", n))
		}
		return nil
	})
	if out := c.ok("events", "-o", "jsonl"); !strings.Contains(out, "dead") {
		t.Error("the ledger does not say that a server is dead")
	}
}
